// Properties of the machine that the manifest and the images record. LH and tools; any thread.
#pragma once

#include <sys/auxv.h>

#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/result.h"

namespace cropdl::process {

// Extensions of this CPU for which a program's libraries may have chosen code (IFUNCs of glibc and OpenBLAS,
// -march=native), by their names in /proc/cpuinfo, or those that it would have there.
const std::vector<std::string>& cpu_features();

// Those of them that /proc/cpuinfo does not show: from CPUID leaf 7, subleaf 1.
std::vector<std::string> hidden_features(unsigned eax, unsigned edx);

std::vector<std::string> missing_features(const std::vector<std::string>& needed);  // that this CPU lacks

// "", or a line for people: `here`, the extensions of this CPU, has some for vectors that the program's
// former CPU (`before`) had not. Not hidden ones: older images do not know them.
std::string line_of_more_features(const std::vector<std::string>& before,
                                  const std::vector<std::string>& here = cpu_features());

// Whether programs may access the FS and GS bases without a system call; part of cpu_features(). Not the
// processor's flag, which kernels before 5.9 show as well.
inline bool has_fsgsbase() {
  constexpr unsigned long kHwcap2FsGsBase = 2;  // arch/x86/include/uapi/asm/hwcap2.h
  return (getauxval(AT_HWCAP2) & kHwcap2FsGsBase) != 0 && getenv("CROPDL_NO_FSGSBASE") == nullptr;
}
inline constexpr char kFsGsBase[] = "fsgsbase";

// --- The numbers of processors that a program may see (sched_getcpu): it may have sized arrays by how many
// there were when it began. LH, MAIN, before any other thread of the program is made.

uint32_t possible_processors();  // the highest number that one of this machine can have, plus one; 0: unknown
uint32_t allowed_processors();   // how many the calling thread may run on; 0: unknown

// "" or a refusal: the calling thread may run on no processor below `number`. 0: no limit.
std::string no_processor_below(uint32_t number);

// Keeps the calling thread, and those that it makes, to the processors below `number` on which it may run.
// `note`: a line for people, if that leaves out some. Does nothing if none is left, or `number` is 0.
Status keep_to_processors_below(uint32_t number, std::string* note);

}  // namespace cropdl::process
