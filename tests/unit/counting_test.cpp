// links: cropdl_counting
// Collective calls as a program's thread and the agent see them. The test's main thread is the program,
// another thread acts as the agent.
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

#include <gtest/gtest.h>

#include "interpose/counting/agreement.h"
#include "interpose/counting/counting.h"
#include "interpose/seam/state.h"
#include "tests/unit/soon.h"

namespace {

using namespace cropdl;
using counting::Part;

constexpr auto kLibrary = static_cast<seam::LibraryNumber>(1);
constexpr uint64_t kBits = uint64_t{1} << 56;

class Records final : public counting::Source {
 public:
  std::vector<counting::Record*> all, on_demand;
  mutable std::atomic<int> driven{0};
  mutable std::atomic<seam::LibraryNumber> held_in{};
  void add_counts(std::vector<coord::CollectiveCount>& counts, uint64_t (*target)(uint64_t)) const override {
    for (const auto* r : all) counts.push_back({r->identity, r->begun});
    for (const auto* r : on_demand)
      if (r->begun != 0 || target(r->identity) != 0) counts.push_back({r->identity, r->begun});
  }
  void drive(seam::LibraryNumber library) const override {
    ++driven;
    held_in = library;
  }
};

void* map_at(uintptr_t address, size_t size) {
  return mmap(reinterpret_cast<void*>(address), size, PROT_READ | PROT_WRITE,
              MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE | MAP_NORESERVE, -1, 0);
}

class Counting : public ::testing::Test {
 protected:
  void SetUp() override {
    static const bool there = map_at(seam::kControlPage, seam::kControlPageSize) != MAP_FAILED &&
                              map_at(seam::kState, seam::kStateSize) != MAP_FAILED;
    ASSERT_TRUE(there);
    auto& record = seam::state()->threads[0];
    record.self = &record;
    seam::by_kernel::set_gs_base(reinterpret_cast<uint64_t>(&record));
    source.all = {&a, &b};
  }
  void TearDown() override {
    counting::release();
    seam::control()->attention = 0;
  }
  coord::RankStatus status() {
    coord::RankStatus s;
    counting::fill(source, s);
    return s;
  }
  coord::RankStatus once_held() {
    coord::RankStatus s = status();
    soon([&] {
      s = status();
      return !s.held.empty();
    });
    return s;
  }
  static void set_targets(const std::vector<coord::CollectiveCount>& t) { counting::set_targets(t); }

  counting::Record a{kBits | 1, 5}, b{kBits | 2, 7}, pair{kBits | 3, 0};
  Records source;
};

TEST_F(Counting, CallsThatBeginTogetherBeginOnlyIfAllMay) {
  counting::hold(source);
  const auto before = status().counts;
  std::atomic<bool> began{false};
  std::thread agent([&] {
    const auto held = once_held();
    // Both are raised at once, the first one by both of its calls.
    EXPECT_EQ(held.held, (std::vector<coord::HeldCalls>{{a.identity, 7}, {b.identity, 8}}));
    EXPECT_TRUE(held.inside.empty());
    EXPECT_EQ(held.counts, before);
    set_targets({{a.identity, 7}, {b.identity, 7}});  // enough for one of them
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    EXPECT_FALSE(began);
    EXPECT_EQ(status().counts, before);
    set_targets({{a.identity, 6}, {b.identity, 8}});  // one of two calls on the first
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    EXPECT_FALSE(began);
    set_targets({{a.identity, 7}, {b.identity, 8}});
  });
  const Part parts[] = {{&a, 2}, {&b, 1}};
  EXPECT_TRUE(counting::begin_parts(parts, kLibrary));
  began = true;
  agent.join();
  EXPECT_EQ(a.begun, 7u);
  EXPECT_EQ(b.begun, 8u);
  EXPECT_EQ(status().inside.size(), 1u);
  EXPECT_TRUE(status().held.empty());
  EXPECT_GT(source.driven, 0);
  EXPECT_EQ(source.held_in, kLibrary);
  counting::end();
  EXPECT_TRUE(status().inside.empty());
}

// Two members of one communicator in this process, the other one a call ahead.
TEST_F(Counting, AHeldGroupWantsNoMoreThanItsOwnCalls) {
  counting::Record behind{a.identity, 4};
  source.all = {&a, &behind};
  counting::hold(source);
  set_targets({{a.identity, 5}});
  std::thread agent([&] {
    EXPECT_EQ(once_held().held, (std::vector<coord::HeldCalls>{{a.identity, 6}}));
    set_targets({{a.identity, 6}});
  });
  const Part parts[] = {{&behind, 2}};
  EXPECT_TRUE(counting::begin_parts(parts, kLibrary));
  counting::end();
  agent.join();
  EXPECT_EQ(behind.begun, 6u);
}

TEST_F(Counting, AThreadThatMustStopLeavesAHeldGroupUncounted) {
  counting::hold(source);
  set_targets({{a.identity, 6}, {b.identity, 7}});
  seam::control()->attention = seam::kAttentionStop;
  const Part parts[] = {{&a, 1}, {&b, 1}};
  EXPECT_FALSE(counting::begin_parts(parts, kLibrary));
  EXPECT_EQ(a.begun, 5u);
  EXPECT_EQ(b.begun, 7u);
  EXPECT_TRUE(status().held.empty());
  EXPECT_TRUE(status().inside.empty());
  EXPECT_FALSE(counting::begin_unheld(&b, false));
  EXPECT_FALSE(counting::begin_held(&b));
  EXPECT_EQ(b.begun, 7u);
}

TEST_F(Counting, TheTimeInWhichAThreadIsHeldIsMeasured) {
  constexpr int64_t kHeld = 20'000;  // us
  counting::hold(source);
  EXPECT_EQ(counting::waited(), 0);
  std::thread agent([&] {
    once_held();
    std::this_thread::sleep_for(std::chrono::microseconds(kHeld));
    EXPECT_GE(counting::waited(), kHeld) << "while it is held";
    set_targets({{a.identity, 6}});
  });
  EXPECT_FALSE(counting::begin_unheld(&a, false));
  EXPECT_TRUE(counting::begin_held(&a));
  counting::end();
  agent.join();
  const int64_t waited = counting::waited();
  EXPECT_GE(waited, kHeld);
  std::this_thread::sleep_for(std::chrono::microseconds(kHeld));
  EXPECT_EQ(counting::waited(), waited) << "when it is held no more";
  counting::hold(source);
  EXPECT_EQ(counting::waited(), 0) << "the next attempt";
}

// The agent looks at once, rather than a millisecond later.
TEST_F(Counting, AThreadWakesTheAgentWhenItIsHeldAndWhenItBeginsTheLastCallThatMayBegin) {
  const int event = eventfd(0, EFD_NONBLOCK);
  const auto woken = [event] {
    uint64_t times = 0;
    return read(event, &times, sizeof times) == sizeof times ? times : 0;
  };
  const auto call = [this] {
    EXPECT_FALSE(counting::begin_unheld(&a, false));
    EXPECT_TRUE(counting::begin_held(&a));
    counting::end();
  };
  counting::set_agent_event(event);
  counting::hold(source);
  set_targets({{a.identity, 7}, {b.identity, 8}});
  call();
  EXPECT_EQ(woken(), 0u) << "another call may follow";
  call();
  EXPECT_EQ(woken(), 1u) << "the last one";
  std::thread agent([&] {
    EXPECT_TRUE(soon([&] { return woken() == 1; })) << "held";
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    EXPECT_EQ(woken(), 0u) << "still held";
    set_targets({{a.identity, 9}, {b.identity, 9}});
  });
  call();
  agent.join();
  EXPECT_EQ(woken(), 0u);
  const Part parts[] = {{&a, 1}, {&b, 1}};
  EXPECT_TRUE(counting::begin_parts(parts, kLibrary));
  counting::end();
  EXPECT_EQ(woken(), 1u) << "the last one of the first record, in a group";
  counting::set_agent_event(-1);
  close(event);
}

TEST_F(Counting, AReleaseLetsAHeldGroupGo) {
  counting::hold(source);
  std::thread agent([&] {
    once_held();
    counting::release();
  });
  const Part parts[] = {{&a, 1}, {&b, 1}};
  EXPECT_TRUE(counting::begin_parts(parts, kLibrary));
  counting::end();
  agent.join();
  EXPECT_EQ(b.begun, 8u);
}

TEST_F(Counting, ANestedHoldStartsAgainAndOneReleaseEndsIt) {
  counting::hold(source);
  set_targets({{a.identity, 6}});
  counting::hold(source);
  std::atomic<bool> began{false};
  std::thread agent([&] {
    // the first hold's target is no longer valid
    EXPECT_EQ(once_held().held, (std::vector<coord::HeldCalls>{{a.identity, 6}}));
    EXPECT_FALSE(began);
    set_targets({{a.identity, 6}});
  });
  EXPECT_TRUE(counting::begin_unheld(&a, true) || counting::begin_held(&a));
  began = true;
  agent.join();
  counting::end();
  EXPECT_EQ(a.begun, 6u);
  counting::release();
  EXPECT_TRUE(counting::begin_unheld(&b, true));
  counting::end();
}

// A process that has exchanged nothing with it yet is behind as soon as the other's count is known.
TEST_F(Counting, AnUnusedRecordWithATargetIsNamed) {
  source.on_demand = {&pair};
  counting::hold(source);
  EXPECT_EQ(status().counts.size(), 2u);
  set_targets({{a.identity, 5}, {b.identity, 7}, {pair.identity, 1}});
  const auto counts = status().counts;
  EXPECT_NE(std::find(counts.begin(), counts.end(), coord::CollectiveCount{pair.identity, 0}), counts.end());
  EXPECT_TRUE(counting::begin_unheld(&pair, true) || counting::begin_held(&pair));
  counting::end();
  EXPECT_EQ(pair.begun, 1u);
}

// No scan of the agent may show calls as begun that are withdrawn afterwards, unless it shows the thread
// inside.
TEST_F(Counting, AWithdrawnGroupIsNeverSeenAsBegun) {
  std::atomic<bool> ended{false};
  int cuts = 0, torn = 0;
  std::thread agent([&] {
    const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    for (int i = 0; i < 300 || (cuts <= 100 && std::chrono::steady_clock::now() < end); ++i) {
      counting::hold(source);
      const auto targets = status().counts;
      set_targets(targets);
      coord::RankStatus s;
      for (int look = 0; look < 1000 && (look == 0 || !s.inside.empty() || s.counts != targets); ++look) {
        std::this_thread::yield();
        s = status();
      }
      if (s.inside.empty() && s.counts == targets) {
        ++cuts;
        std::this_thread::sleep_for(std::chrono::microseconds(200));
        // The thread may be about to withdraw an announcement, but only briefly.
        coord::RankStatus later;
        soon([&] {
          later = status();
          return later.inside.empty();
        });
        if (later.counts != s.counts || !later.inside.empty()) ++torn;
      }
      counting::release();
    }
    ended = true;
  });
  const Part parts[] = {{&a, 1}, {&b, 1}};
  while (!ended) {
    if (counting::begin_parts(parts, kLibrary)) counting::end();
  }
  agent.join();
  EXPECT_GT(cuts, 100);
  EXPECT_EQ(torn, 0);
}

}  // namespace
