// links: cropdl_result
// An error carries a line for people, never a bare number.
#include "base/result.h"

#include <gtest/gtest.h>
#include <cerrno>

TEST(Result, SaysWhatTheSystemSaid) { EXPECT_EQ(cropdl::errno_text(ENOSPC), "No space left on device"); }

TEST(Result, IsEitherAValueOrAnError) {
  cropdl::Result<int> good = 7, bad = cropdl::Error{"rank 1: no such version"};
  ASSERT_TRUE(good);
  EXPECT_EQ(*good, 7);
  ASSERT_FALSE(bad);
  EXPECT_EQ(bad.error().message, "rank 1: no such version");
}
