// links: cropdl_restart
// Which versions --keep keeps.
#include "restart/retention.h"

#include <gtest/gtest.h>

namespace cropdl::restart {
namespace {

constexpr int64_t kHour = 3600, kDay = 24 * kHour;

// Version i + 1 at times[i].
std::vector<DatedVersion> at(const std::vector<int64_t>& times) {
  std::vector<DatedVersion> versions;
  for (const int64_t time : times) versions.push_back({versions.size() + 1, time});
  return versions;
}

using Numbers = std::set<uint64_t>;

TEST(Retention, KeepsTheLastVersionsByTheirNumbers) {
  const auto versions = at({400, 300, 200, 100});  // the clock was set back
  EXPECT_EQ(versions_to_keep(versions, {2, 0, 0}), (Numbers{3, 4}));
  EXPECT_EQ(versions_to_keep(versions, {9, 0, 0}), (Numbers{1, 2, 3, 4}));
  EXPECT_EQ(versions_to_keep({}, {2, 3, 4}), Numbers{});
}

TEST(Retention, TheNewestAlwaysStays) {
  EXPECT_EQ(versions_to_keep(at({1, 2, 3}), {0, 0, 0}), Numbers{3});
  // A version dated later than the newest, by a wrong clock, must not cause the removal of others.
  EXPECT_EQ(versions_to_keep(at({10 * kDay, 1, 2}), {0, 1, 1}), (Numbers{1, 3}));
  EXPECT_EQ(versions_to_keep(at({90 * kDay, kDay, 2 * kDay, 3 * kDay}), {0, 0, 3}), (Numbers{1, 2, 3, 4}));
}

// Versions 1 to 5, then 6 to `last`, continued from version 2.
std::vector<DatedVersion> restarted_from_2(uint64_t last) {
  std::vector<DatedVersion> versions;
  for (uint64_t i = 1; i <= last; ++i)
    versions.push_back({i, static_cast<int64_t>(i), uint64_t{i == 6 ? 2u : 0u}});
  return versions;
}

TEST(Retention, VersionsThatARestartPassedOverDoNotDisplaceTheOneThatWorked) {
  EXPECT_EQ(versions_to_keep(restarted_from_2(6), {3, 0, 0}), (Numbers{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(versions_to_keep(restarted_from_2(7), {3, 0, 0}), (Numbers{2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(versions_to_keep(restarted_from_2(8), {3, 0, 0}), (Numbers{6, 7, 8}))
      << "they do not stay forever";
  EXPECT_EQ(versions_to_keep(restarted_from_2(6), {1, 0, 0}), Numbers{6});
  EXPECT_EQ(versions_to_keep(restarted_from_2(8), {1, 1, 0}), Numbers{8});
}

TEST(Retention, ARestartPassesOverNoOtherJobsVersions) {
  std::vector<DatedVersion> versions = restarted_from_2(9);
  for (DatedVersion& one : versions) one.job = one.number >= 3 && one.number <= 5 ? "begun anew" : "first";
  EXPECT_EQ(versions_to_keep(versions, {6, 0, 0}), (Numbers{4, 5, 6, 7, 8, 9}));
}

TEST(Retention, WhatIsPassedOverPassesOverNothing) {
  std::vector<DatedVersion> versions = restarted_from_2(6);
  versions.push_back({7, 7, 5});  // version 6 was damaged, too, and the user asked for version 5
  EXPECT_EQ(versions_to_keep(versions, {2, 0, 0}), (Numbers{5, 6, 7}));
  versions.push_back({8, 8, 0});
  EXPECT_EQ(versions_to_keep(versions, {2, 0, 0}), (Numbers{7, 8}));
}

TEST(Retention, ManyShortRunsFromOneVersionLeaveNoMoreThanOneRunMay) {
  std::vector<DatedVersion> versions = {{1, 1, 0}};
  for (uint64_t number = 2; number <= 9; ++number)
    versions.push_back({number, static_cast<int64_t>(number), 1});
  EXPECT_EQ(versions_to_keep(versions, {3, 0, 0}), (Numbers{1, 6, 7, 8, 9}));
  EXPECT_EQ(versions_to_keep(versions, {3, 1, 1}), (Numbers{1, 4, 5, 6, 7, 8, 9}));
}

TEST(Retention, KeepsTheNewestOfEachHourThatHasVersions) {
  const int64_t begin = 100 * kDay;
  const auto versions = at(
      {begin, begin + kHour - 1, begin + kHour, begin + kHour + 9, begin + 3 * kHour, begin + 3 * kHour + 1});
  EXPECT_EQ(versions_to_keep(versions, {0, 1, 0}), Numbers{6});
  EXPECT_EQ(versions_to_keep(versions, {0, 2, 0}), (Numbers{4, 6}));
  EXPECT_EQ(versions_to_keep(versions, {0, 3, 0}), (Numbers{2, 4, 6}));
  EXPECT_EQ(versions_to_keep(versions, {0, 4, 0}), (Numbers{2, 4, 6}));
}

TEST(Retention, AClockThatJumpsForwardRemovesNothing) {
  const int64_t begin = 100 * kDay;
  auto versions = at({begin, begin + kDay, begin + kDay + kHour, begin + 400 * kDay});
  EXPECT_EQ(versions_to_keep(versions, {1, 24, 7}), (Numbers{1, 2, 3, 4}));
  versions.push_back({5, begin + 2 * kDay});  // the clock is right again
  EXPECT_EQ(versions_to_keep(versions, {1, 24, 7}), (Numbers{1, 2, 3, 4, 5}));
}

TEST(Retention, IsReadFromWords) {
  const auto read = [](const char* text) {
    const auto r = parse_retention(text);
    return r ? std::vector<uint64_t>{r->keep, r->hourly, r->daily} : std::vector<uint64_t>{};
  };
  using Read = std::vector<uint64_t>;
  EXPECT_EQ(read("3"), (Read{3, 0, 0}));
  EXPECT_EQ(read("3,24h"), (Read{3, 24, 0}));
  EXPECT_EQ(read("1,7d"), (Read{1, 0, 7}));
  EXPECT_EQ(read("12,24h,7d"), (Read{12, 24, 7}));
  for (const char* wrong : {"", "0", "h", "3,", "3,h", "3,7d,24h", "24h", "3 ,4h", "3,4h,", "3,0d", "-1",
                            "3,4h5d", "1234567", "3,4m"})
    EXPECT_EQ(read(wrong), Read{}) << wrong;
}

TEST(Retention, DaysAndHoursAndTheLastAddUp) {
  const int64_t begin = 100 * kDay;
  const auto versions = at({begin, begin + kDay, begin + 2 * kDay, begin + 2 * kDay + kHour,
                            begin + 2 * kDay + kHour + 1, begin + 2 * kDay + kHour + 2});
  EXPECT_EQ(versions_to_keep(versions, {2, 2, 2}), (Numbers{2, 3, 5, 6}));
  EXPECT_EQ(versions_to_keep(versions, {0, 0, 3}), (Numbers{1, 2, 6}));
  EXPECT_EQ(versions_to_keep(versions, {0, 0, 1000000000}), (Numbers{1, 2, 6}));
}

// With hourly pruning, no version that an earlier pruning kept for its day is removed too early.
TEST(Retention, PrunedEveryHourAVersionOfEachDayStays) {
  std::vector<DatedVersion> versions;
  for (uint64_t i = 0; i < 24 * 5; ++i) {
    versions.push_back({i + 1, 100 * kDay + static_cast<int64_t>(i) * kHour});
    const Numbers kept = versions_to_keep(versions, {0, 3, 3});
    std::erase_if(versions, [&](const DatedVersion& one) { return kept.count(one.number) == 0; });
  }
  EXPECT_EQ(versions_to_keep(versions, {0, 3, 3}), (Numbers{72, 96, 118, 119, 120}));
}

TEST(Retention, OfUnknownTimeStaysWhereTimesCount) {
  std::vector<DatedVersion> versions = at({1, 2, 3});
  versions[0].created.reset();
  EXPECT_EQ(versions_to_keep(versions, {1, 0, 0}), Numbers{3});
  EXPECT_EQ(versions_to_keep(versions, {0, 1, 0}), (Numbers{1, 3}));
}

TEST(Retention, ReadsTimesOfManifests) {
  EXPECT_EQ(seconds_of("1970-01-02T00:00:01Z"), kDay + 1);
  EXPECT_EQ(seconds_of("2026-11-22T04:36:23Z"), 1795322183);
  for (const char* wrong :
       {"", "x", "2026-11-22", "2026-11-22T04:36:23", "2026-11-22T04:36:23Z ", "2026-13-01T00:00:00Z",
        "2026-02-30T00:00:00Z", "2026-11-22T24:00:00Z", "1969-01-01T00:00:00Z"})
    EXPECT_FALSE(seconds_of(wrong)) << wrong;
}

}  // namespace
}  // namespace cropdl::restart
