// links: cropdl_process
// What of this machine a restart elsewhere needs.
#include "restart/process/machine.h"

#include <gtest/gtest.h>

namespace cropdl::process {
namespace {

// oneDNN runs vpdpbssd on such a CPU. On one with AVX-VNNI alone it is an illegal instruction.
TEST(Machine, ExtensionsThatProcCpuinfoHidesAreNeededByARestart) {
  EXPECT_EQ(hidden_features(1u << 23, 1u << 4), (std::vector<std::string>{"avx_ifma", "avx_vnni_int8"}));
  EXPECT_TRUE(hidden_features(1u << 4 | 1u << 5, 0).empty()) << "/proc/cpuinfo shows these";
  EXPECT_EQ(missing_features({"avx_nothing"}), std::vector<std::string>{"avx_nothing"});
}

}  // namespace
}  // namespace cropdl::process
