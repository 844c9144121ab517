// links: cropdl_coord
// The line that shows a job's progress.
#include "coord/progress.h"

#include <fcntl.h>
#include <gtest/gtest.h>

namespace cropdl::coord {
namespace {

constexpr int64_t kNow = 1'800'000'000;

Metrics job() {
  Metrics m;
  m.run_seconds = 100;
  m.iteration = 5120;
  m.iteration_seconds = 0.125;
  m.versions = 2;
  m.last_version = 7;
  m.last_version_time = kNow - 25;
  m.last_version_bytes = 1'200'000'000;
  m.last_version_memory = 3'400'000'000;
  m.held_seconds = 0.31;
  m.beside_seconds = 0.1;
  m.next_version = 9;
  return m;
}

TEST(Progress, ShowsKnownValuesOnly) {
  EXPECT_EQ(progress_text(job(), kNow, 200),
            "cropdl: iteration 5120 (0.12 s each), version 7 25 s ago (1.2 GB of 3.4 GB), overhead 0.41 %, "
            "next in 9 s");
  Metrics young;
  EXPECT_EQ(progress_text(young, kNow, 200), "");
  young.next_version = 300;
  EXPECT_EQ(progress_text(young, kNow, 200), "cropdl: next in 5 min");
}

TEST(Progress, FitsTheTerminal) {
  EXPECT_EQ(progress_text(job(), kNow, 70),
            "cropdl: iteration 5120 (0.12 s each), overhead 0.41 %, next in 9 s");
  EXPECT_EQ(progress_text(job(), kNow, 36), "cropdl: iteration 5120 (0.12 s each)");
  EXPECT_EQ(progress_text(job(), kNow, 35), "cropdl: overhead 0.41 %");
  EXPECT_EQ(progress_text(job(), kNow, 0), "");
}

TEST(Progress, AClockThatWasSetBackMakesNoNegativeAge) {
  EXPECT_NE(progress_text(job(), kNow - 3600, 200).find("version 7 0 s ago"), std::string::npos);
}

TEST(Progress, IsNotDrawnWhereThereIsNoTerminal) {
  EXPECT_FALSE(ProgressLine(-1).can_draw());
  EXPECT_FALSE(ProgressLine(::open("/dev/null", O_WRONLY)).can_draw());
}

}  // namespace
}  // namespace cropdl::coord
