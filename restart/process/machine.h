// What the manifest and the images say about the machine. LH and tools; any thread.
#pragma once

#include <sys/auxv.h>

#include <cstdlib>
#include <string>
#include <vector>

namespace cropdl::process {

// Instruction set extensions of this CPU that a program's libraries may have chosen code for (glibc's and
// OpenBLAS's IFUNCs, -march=native): names of /proc/cpuinfo.
const std::vector<std::string>& cpu_features();

// Those of `needed` that this CPU lacks.
std::vector<std::string> missing_features(const std::vector<std::string>& needed);

// Whether programs may read and write the bases of FS and GS by themselves: among the features, too. Not the
// processor's flag, which kernels before 5.9 show as well.
inline bool has_fsgsbase() {
  constexpr unsigned long kHwcap2FsGsBase = 2;  // arch/x86/include/uapi/asm/hwcap2.h
  return (getauxval(AT_HWCAP2) & kHwcap2FsGsBase) != 0 && getenv("CROPDL_NO_FSGSBASE") == nullptr;
}
inline constexpr char kFsGsBase[] = "fsgsbase";

std::string kernel_version();
std::string glibc_version();

}  // namespace cropdl::process
