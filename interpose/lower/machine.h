// What the manifest and the images say about the machine. LH and tools; any thread.
#pragma once

#include <string>
#include <vector>

namespace cropdl::lower {

// Instruction set extensions of this CPU that a program's libraries may have chosen code for (glibc's and
// OpenBLAS's IFUNCs, -march=native): names of /proc/cpuinfo.
const std::vector<std::string>& cpu_features();

// Those of `needed` that this CPU lacks.
std::vector<std::string> missing_features(const std::vector<std::string>& needed);

std::string kernel_version();
std::string glibc_version();

}  // namespace cropdl::lower
