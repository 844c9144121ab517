// links: cropdl_commands
// Series and counts that `cropdl report` shows.
#include "restart/cli/report.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace cropdl::cli {
namespace {

using restart::Version;

struct Made {
  uint64_t number, parent;
  const char* created;
  uint64_t iteration;
  double stall = 0.1;
  bool restarted = false;
};

Version version(const Made& made) {
  Version v;
  v.number = v.manifest.version = made.number;
  v.manifest.parent = made.parent;
  v.manifest.restarted = made.restarted;
  v.manifest.created = made.created;
  v.manifest.job = "job-1";
  v.manifest.program = "/bin/train";
  v.manifest.ranks = 2;
  v.manifest.mpi_name = "openmpi";
  v.manifest.stall_seconds = made.stall;
  v.manifest.images = {{"rank-0.img", 1000, 900, 1, "node1"}, {"rank-1.img", 500, 400, 2, "node1"}};
  v.manifest.images[0].iteration = v.manifest.images[1].iteration = made.iteration;
  return v;
}

std::vector<Version> versions(const std::vector<Made>& all) {
  std::vector<Version> made;
  for (const Made& one : all) made.insert(made.begin(), version(one));  // newest first, as a store lists them
  return made;
}

TEST(ReportSeries, TimePerIterationComesFromSuccessiveVersions) {
  const Report report = report_of(versions({{1, 0, "2026-11-25T10:00:00Z", 100},
                                            {2, 1, "2026-11-25T10:00:20Z", 140, 0.2},
                                            {3, 2, "2026-11-25T10:00:50Z", 240, 0.3}}));
  ASSERT_EQ(report.iteration_seconds.size(), 2u);
  EXPECT_DOUBLE_EQ(report.iteration_seconds[0].value, 0.5);
  EXPECT_DOUBLE_EQ(report.iteration_seconds[0].low, 19.0 / 40);
  EXPECT_DOUBLE_EQ(report.iteration_seconds[0].high, 21.0 / 40);
  EXPECT_DOUBLE_EQ(report.iteration_seconds[1].value, 0.3);
  EXPECT_EQ(report.iteration_seconds[1].version, 3u);
  EXPECT_TRUE(report.iteration_seconds[0].begins);
  EXPECT_FALSE(report.iteration_seconds[1].begins);
  EXPECT_EQ(report.complete, 3u);
  EXPECT_EQ(report.bytes, 4500u);
  EXPECT_DOUBLE_EQ(report.stall_seconds, 0.6);
  EXPECT_DOUBLE_EQ(report.last - report.first, 50);
  ASSERT_EQ(report.stall_share.size(), 2u);
  EXPECT_DOUBLE_EQ(report.stall_share[0].value, 0.2 / 20);
  EXPECT_DOUBLE_EQ(report.stall_share[1].value, 0.5 / 50);
  EXPECT_EQ(report.restarts, 0u);
}

TEST(ReportSeries, VersionsThatFollowWithinSecondsAreTakenTogether) {
  std::vector<Made> made;
  const char* const times[] = {"2026-11-25T10:00:00Z", "2026-11-25T10:00:00Z", "2026-11-25T10:00:06Z",
                               "2026-11-25T10:00:12Z", "2026-11-25T10:00:15Z"};
  for (uint64_t i = 0; i < 5; ++i) made.push_back({i + 1, i, times[i], 10 * (i + 1)});
  const Report report = report_of(versions(made));
  ASSERT_EQ(report.iteration_seconds.size(), 2u);  // 12 s, and the rest of the run
  EXPECT_DOUBLE_EQ(report.iteration_seconds[0].value, 12.0 / 30);
  EXPECT_DOUBLE_EQ(report.iteration_seconds[1].value, 3.0 / 10);
  EXPECT_EQ(report.stalls.size(), 5u);
}

TEST(ReportSeries, ARestartIsMarkedAndNotMeasuredAcross) {
  const Report report = report_of(versions({{1, 0, "2026-11-25T10:00:00Z", 100},
                                            {2, 1, "2026-11-25T10:00:20Z", 140},
                                            {3, 2, "2026-11-25T11:00:00Z", 150, 0.1, true},  // a restart
                                            {4, 3, "2026-11-25T11:00:20Z", 190},
                                            {5, 2, "2026-11-25T12:00:00Z", 150},  // from an older version
                                            {6, 5, "2026-11-25T12:00:20Z", 190}}));
  EXPECT_EQ(report.restarts, 2u);
  ASSERT_EQ(report.marks.size(), 2u);
  EXPECT_EQ(report.marks[0].version, 3u);
  EXPECT_EQ(report.marks[0].parent, 2u);
  EXPECT_EQ(report.marks[1].version, 5u);
  EXPECT_EQ(report.marks[1].parent, 2u);
  ASSERT_EQ(report.iteration_seconds.size(), 3u);
  for (const Point& point : report.iteration_seconds) EXPECT_DOUBLE_EQ(point.value, 0.5);
  EXPECT_DOUBLE_EQ(report.observed_seconds, 60);
  EXPECT_DOUBLE_EQ(report.observed_stall_seconds, 0.1 + 0.1 + 0.1);
}

TEST(ReportSeries, RemovedVersionsAreNoRestartAndTheirStallsAreNotGuessed) {
  const Report report = report_of(versions({{1, 0, "2026-11-25T10:00:00Z", 100},
                                            {7, 6, "2026-11-25T10:01:00Z", 200},
                                            {8, 7, "2026-11-25T10:01:10Z", 210}}));
  EXPECT_EQ(report.restarts, 0u);
  EXPECT_EQ(report.pruned_gaps, 1u);
  EXPECT_DOUBLE_EQ(report.observed_seconds, 10);
  ASSERT_EQ(report.iteration_seconds.size(), 2u);  // iterations are counted across the gap
  EXPECT_DOUBLE_EQ(report.iteration_seconds[0].value, 0.6);
}

TEST(ReportSeries, DamagedAndUndatedVersionsAndOnesWithoutIterations) {
  std::vector<Version> all = versions(
      {{1, 0, "2026-11-25T10:00:00Z", 0}, {2, 1, "yesterday", 0}, {3, 2, "2026-11-25T10:00:30Z", 0, 0}});
  all[0].damage = "an image is missing";
  Version unreadable;
  unreadable.number = 4;
  unreadable.damage = "no manifest";
  all.insert(all.begin(), unreadable);
  const Report report = report_of(all);
  EXPECT_EQ(report.complete, 2u);
  EXPECT_EQ(report.damaged, 2u);
  EXPECT_EQ(report.unreadable, 1u);
  ASSERT_EQ(report.stalls.size(), 2u);
  EXPECT_EQ(report.stalls[1].value, 0);
  EXPECT_TRUE(report.stalls[1].damaged);
  EXPECT_TRUE(report.iteration_seconds.empty());
  EXPECT_FALSE(report_of({}).dated);
}

TEST(ReportSeries, AClockThatIsSetBackMeasuresNothing) {
  const Report report = report_of(versions({{1, 0, "2026-11-25T10:00:00Z", 100},
                                            {2, 1, "2026-11-25T09:00:00Z", 140},
                                            {3, 2, "2026-11-25T09:00:20Z", 180}}));
  ASSERT_EQ(report.iteration_seconds.size(), 1u);
  EXPECT_DOUBLE_EQ(report.iteration_seconds[0].value, 0.5);
  EXPECT_DOUBLE_EQ(report.observed_seconds, 20);
}

TEST(ReportSeries, ThinningKeepsEndsPeaksAndBeginnings) {
  Series series;
  for (uint64_t i = 0; i < 1000; ++i)
    series.push_back({static_cast<double>(i),
                      i == 444   ? 9.0
                      : i == 555 ? -9.0
                                 : 1.0,
                      1, 1, i, false, i == 702});
  const Series few = thinned(series, 100);
  EXPECT_LE(few.size(), 100u);
  EXPECT_GT(few.size(), 25u);
  EXPECT_EQ(few.front().version, 0u);
  EXPECT_EQ(few.back().version, 999u);
  const auto has = [&](uint64_t number) {
    return std::any_of(few.begin(), few.end(), [&](const Point& p) { return p.version == number; });
  };
  EXPECT_TRUE(has(444));
  EXPECT_TRUE(has(555));
  EXPECT_EQ(std::count_if(few.begin(), few.end(), [](const Point& p) { return p.begins; }), 1);
  EXPECT_EQ(thinned(few, 100).size(), few.size());
}

TEST(ReportPage, NamesAreTextAndLongOnesAreCut) {
  EXPECT_EQ(html_text("<a href=\"x\">'&"), "&lt;a href=&quot;x&quot;&gt;&#39;&amp;");
  EXPECT_EQ(html_text("a\x1b[1m\xff"), "a\\x1b[1m\\xff");
  EXPECT_EQ(html_text("abcdef", 3), "abc\u2026");
  EXPECT_LT(html_text(std::string(1 << 20, '\xff'), 100).size(), 200u);
}

TEST(ReportPage, TextsForPeople) {
  EXPECT_EQ(duration_text(0), "0 s");
  EXPECT_EQ(duration_text(0.0123), "12.3 ms");
  EXPECT_EQ(duration_text(59.96), "60 s");
  EXPECT_EQ(duration_text(303), "5 min 3 s");
  EXPECT_EQ(duration_text(7980), "2 h 13 min");
  EXPECT_EQ(duration_text(3 * 86400 + 4 * 3600), "3 days 4 h");
  EXPECT_EQ(value_text(0.0042, Unit::kShare), "0.42 %");
  EXPECT_EQ(value_text(3.1e9, Unit::kBytes), "3.1 GB");
}

TEST(ReportPage, NoneOneAndAThousandVersions) {
  for (const uint64_t count : {0, 1, 1000}) {
    std::vector<Version> all;
    for (uint64_t i = count; i > 0; --i)
      all.push_back(version({i, i - 1, "2026-11-25T10:00:00Z", i, 0.1, i % 3 == 0}));
    const std::string page = page_of(all, report_of(all), {"/s", "2026-11-25T10:00:00Z", ""});
    EXPECT_LT(page.size(), 1u << 20) << count;
    EXPECT_EQ(page.find("nan"), std::string::npos) << count;
    EXPECT_EQ(page.find("inf"), std::string::npos) << count;
  }
}

}  // namespace
}  // namespace cropdl::cli
