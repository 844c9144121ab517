// links: cropdl_boundaries
// Finds a rank's iterations from the tokens that its threads record, also if some were lost, and after a
// restart.
#include "interpose/boundaries/tracker.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "interpose/boundaries/token_ring.h"

namespace cropdl::boundaries {
namespace {

constexpr uint64_t kWorld = 1;
constexpr int kMoreThanFit = TokenRing::kTokens + 88;  // iterations whose tokens are lost in part

class Program : public testing::Test {
 protected:
  void SetUp() override { note_from(0); }
  // Sets the ring as in a program that has recorded this many tokens.
  void note_from(uint64_t written) {
    ring = {};
    ring.written = written;
  }
  // A letter is a call site; + duplicates the world. Capital letters are calls on the world, others are on a
  // communicator without other members.
  void make(const std::string& calls) {
    for (const char c : calls) {
      const bool is_world = c <= 'Z';
      Token& t = ring.tokens[ring.written % TokenRing::kTokens];
      t.call = static_cast<uint64_t>(c) | (c == '+' ? kMakesObjects : 0);
      t.caller = 7;
      t.stack = 7;
      t.what = 7;
      t.identity = is_world ? kWorld : 0;
      t.begun = is_world ? ++begun : 0;
      const uint64_t number = ring.written + 1;
      t.number = number;
      ring.written = number;
    }
  }
  void iterate(const std::string& calls, int times = 1) {
    for (int i = 0; i < times; ++i) {
      make(calls);
      ++done;
    }
  }
  void look() { tracker.look(now += 20'000); }
  void expect_end_at(uint64_t iteration, uint64_t world) const {
    const coord::NextBoundary b = tracker.next_boundary();
    EXPECT_EQ(b.iteration, iteration);
    ASSERT_EQ(b.counts.size(), 1u);
    EXPECT_EQ(b.counts[0].comm, kWorld);
    EXPECT_EQ(b.counts[0].begun, world);
  }

  Tracker tracker;
  uint64_t begun = 0, done = 0;
  int64_t now = 1;
};

TEST_F(Program, ReportsTheEndOfItsIteration) {
  for (int i = 0; i < 6; ++i) {
    iterate("ABcD");
    look();
  }
  EXPECT_EQ(tracker.iterations(), done);
  expect_end_at(done, begun);  // already reached
  make("A");
  look();
  expect_end_at(done + 1, begun + 2);
  EXPECT_EQ(tracker.iteration_us(), 20'000);
}

TEST_F(Program, ThatDuplicatesACommunicatorInItsFirstIterationBeginsItThereToo) {
  make("I");
  iterate("AB+C");
  iterate("ABC", 3);
  look();
  expect_end_at(4, 1 + 13);
  iterate("ABC", 3);
  make("A+");  // one more call has begun at the end of this iteration
  look();
  expect_end_at(8, 1 + 22 + 3);
  make("BC");
  look();
  expect_end_at(8, 1 + 22 + 4);
}

// Else the first calls of a fast loop might be lost after a pause.
TEST_F(Program, IsLookedAtOftenFromItsFirstCollectiveOn) {
  int64_t pause = 0;
  const auto idle = [&] {
    for (int i = 0; i < 20; ++i) {
      const int64_t next = tracker.look(now);
      pause = next - std::exchange(now, next);
    }
    return pause;
  };
  EXPECT_EQ(idle(), 1'000'000) << "without any collective";
  make("I");
  EXPECT_EQ(idle(), 100'000);
  iterate("ABcD", 10);
  EXPECT_EQ(idle(), 100'000) << "another loop may follow";
}

TEST_F(Program, IsLookedAtAsOftenAsItsCallsRequireAtMomentsThatAllRanksShare) {
  const auto pause_with = [&](int iterations) {
    int64_t pause = 0;
    for (int i = 0; i < 6; ++i) {
      iterate("ABcD", iterations);
      const int64_t next = tracker.look(now + 137);  // agents wake a little late
      pause = next - std::exchange(now, next);
    }
    EXPECT_EQ(now % pause, 0);
    return pause;
  };
  EXPECT_EQ(pause_with(100), 400'000) << "a twentieth of the ring";
  EXPECT_EQ(pause_with(600), 100'000) << "more than a quarter";
  EXPECT_EQ(pause_with(200), 100'000) << "a tenth";
  for (int i = 1; i < 90; ++i) {  // at a cut
    const int64_t early = now - 100'000 + i * 1000;
    EXPECT_EQ(tracker.look(early), now);
  }
  EXPECT_EQ(pause_with(200), 100'000);
}

TEST_F(Program, CountsOnAfterLostTokens) {
  for (const char* calls : {"A", "ABcD", "ABBBcDDD"}) {
    SetUp();
    tracker = {};
    begun = done = 0;
    iterate(calls, 40);
    look();
    iterate(calls, kMoreThanFit);
    make("A");
    look();
    make(calls + 1);
    ++done;
    iterate(calls, 2);
    look();
    EXPECT_EQ(tracker.iterations(), done) << calls;
    expect_end_at(done, begun);
  }
}

TEST_F(Program, InAnyOrderEndsItsIterationsWhereItDidBehindLostTokens) {
  const char* const orders[] = {"ABCDE", "CABED", "EDABC", "BDCAE", "DEBCA", "ACEBD"};
  const auto next = [&](size_t i) { iterate(orders[i * 7 % 6]); };
  for (size_t i = 0; i < 40; ++i) next(i);
  look();
  ASSERT_EQ(tracker.iterations(), done);
  // While the order stays the same, any five consecutive calls look like an iteration.
  for (int more = 0; more < 5; ++more) {
    iterate("ABCDE", kMoreThanFit + more);
    make("AB");
    look();
    make("CDE");
    ++done;
    iterate("ABCDE", 3);
    look();
    EXPECT_EQ(tracker.iterations(), done);
    expect_end_at(done, begun);
  }
}

TEST_F(Program, WhoseCallsHaveNoOtherMembersGoesOnBehindLostTokens) {
  iterate("abcd", 10);
  look();
  iterate("abcd", kMoreThanFit);
  look();
  const uint64_t before = tracker.iterations();
  iterate("abcd", 5);
  look();
  EXPECT_EQ(tracker.iterations(), before + 5);
}

TEST_F(Program, ContinuesAfterARestartAndLostTokens) {
  iterate("ABcD", 10);
  look();
  const PeriodFinder::Place place = tracker.place();
  tracker = {};
  tracker.resume(place);
  note_from(0);
  iterate("ABcD", kMoreThanFit);
  look();
  iterate("ABcD", 5);
  look();
  EXPECT_GE(tracker.iterations(), 15u);
  expect_end_at(tracker.iterations(), begun);
}

TEST_F(Program, CallsOfAnIterationAreKnownAfterARestart) {
  const auto calls = [&] {
    std::string all;
    for (const Call& c : tracker.iteration()) {
      EXPECT_EQ(c.caller, 7u);
      EXPECT_EQ(c.identity, c.call <= 'Z' ? kWorld : 0);
      all += static_cast<char>(c.call);
    }
    return all;
  };
  make("XY");
  look();
  EXPECT_EQ(calls(), "");
  iterate("AB+cD", 8);
  look();
  EXPECT_EQ(calls(), "ABcD");
  make("EEE");
  iterate("ABcD", 3);
  make("A");
  look();
  EXPECT_EQ(calls(), "ABcD");
  const PeriodFinder::Place place = tracker.place();
  const std::vector<Call> before = tracker.iteration();
  tracker = {};
  tracker.resume(place, before);
  note_from(0);
  look();
  EXPECT_EQ(calls(), "ABcD");
  iterate("FG", 60);  // a different loop
  look();
  EXPECT_EQ(calls(), "FG");
}

TEST_F(Program, CallsBeginWhereAnInterruptionShowsThatIterationsBegin) {
  const auto calls = [&] {
    std::string all;
    for (const Call& c : tracker.iteration()) all += static_cast<char>(c.call);
    return all;
  };
  make("D");  // the last one of this loop
  iterate("ABCD", 8);
  make("A");
  look();
  EXPECT_EQ(calls(), "DABC");
  make("BCD");
  make("EE");
  iterate("ABCD", 3);
  look();
  EXPECT_EQ(calls(), "ABCD");
}

TEST_F(Program, ThatStandsStillForAVersionHasNoLongerIterationsByIt) {
  for (int i = 0; i < 8; ++i) {
    iterate("ABcD");
    look();
  }
  now += 60'000'000;
  iterate("ABcD");
  look();
  EXPECT_EQ(tracker.iteration_us(), 20'000);
}

}  // namespace
}  // namespace cropdl::boundaries
