// links: cropdl_coord
// When the last version before a time limit is taken.
#include <gtest/gtest.h>

#include "coord/last_version.h"

namespace cropdl::coord {
namespace {

TEST(LastVersion, LeavesTwiceItsCostAndAMarginBeforeTheLimit) {
  EXPECT_DOUBLE_EQ(last_version_at(0, 1000, 20, 0), 1000 - 40 - 10);
  // time counts from the start of the run
  EXPECT_DOUBLE_EQ(last_version_at(500, 1500, 20, 0), 1500 - 40 - 10);
  EXPECT_DOUBLE_EQ(last_version_at(0, 1000, 20, 7), 1000 - 40 - 7 - 10);
}

TEST(LastVersion, LeavesNoWholeIterationIfThatIsLong) {
  EXPECT_DOUBLE_EQ(last_version_at(0, 7200, 20, 2400), 7200 - 40 - 11 - 60);
}

TEST(LastVersion, TheMarginIsASecondOnShortRunsAndAMinuteOnLongOnes) {
  EXPECT_DOUBLE_EQ(last_version_margin(5), 1);
  EXPECT_DOUBLE_EQ(last_version_margin(-5), 1);  // a limit that has passed
  EXPECT_DOUBLE_EQ(last_version_margin(3600), 36);
  EXPECT_DOUBLE_EQ(last_version_margin(3 * 86400), 60);
}

TEST(LastVersion, IsBeforeTheStartIfThereIsTooLittleTime) {
  EXPECT_LT(last_version_at(100, 101, 0.1, 0), 100);
  EXPECT_LT(last_version_at(100, 160, 30, 0), 100);
  EXPECT_GT(last_version_at(100, 160, 20, 0), 100);
}

}  // namespace
}  // namespace cropdl::coord
