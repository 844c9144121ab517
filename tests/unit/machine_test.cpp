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

TEST(Machine, ALineNamesWhatACpuHasMoreForVectors) {
  EXPECT_EQ(line_of_more_features({"avx", "avx2"}, {"avx", "avx2", "rdseed", "avx_ifma"}), "")
      << "no vectors, or not in older images";
  EXPECT_EQ(line_of_more_features({"avx", "avx2", "fma", "avx512f"}, {"avx", "avx2", "fma"}), "");
  const std::string line = line_of_more_features({"avx", "fma"}, {"avx", "avx2", "avx512f", "fma"});
  EXPECT_NE(line.find("(avx2, avx512f)"), line.npos) << line;
}

}  // namespace
}  // namespace cropdl::process
