// links: cropdl_coord
// Wherever memory runs out in rank 0's agent during a checkpoint, no rank stays held, and the command is
// answered.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <new>

#include "coord/agent.h"
#include "coord/client.h"
#include "tests/unit/coord_fakes.h"

namespace {
thread_local bool is_agent_0 = false;
std::atomic<bool> counts{false};
std::atomic<long> allocations{0}, failing{-1};  // the number of the one that fails
}  // namespace

__attribute__((noinline)) void* operator new(size_t size) {
  if (is_agent_0 && counts && allocations++ == failing) throw std::bad_alloc();
  void* const memory = malloc(size);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
__attribute__((noinline)) void operator delete(void* memory) noexcept { free(memory); }
__attribute__((noinline)) void operator delete(void* memory, size_t) noexcept { free(memory); }

namespace cropdl::coord {
namespace {

constexpr uint32_t kRanks = 3;

class NotedRank : public FakeRank {
 public:
  bool is_first = false;
  bool take_sigterm() override {  // at each turn of the agent's thread
    is_agent_0 = is_agent_0 || is_first;
    return false;
  }
};

template <class F>
bool soon(F condition) {
  using Clock = std::chrono::steady_clock;
  for (const auto begin = Clock::now(); !condition();) {
    if (Clock::now() - begin > std::chrono::seconds(60)) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(300));
  }
  return true;
}

// Returns whether the checkpoint needed more than `number` allocations.
bool checkpoint_without_allocation(long number) {
  const TemporaryDirectory directory;
  FakeSink sink;
  std::vector<NotedRank> ranks(kRanks);
  ranks[0].is_first = true;
  std::vector<std::unique_ptr<Agent>> agents;
  for (uint32_t r = 0; r < kRanks; ++r) {
    AgentConfig c;
    c.directory = directory.path;
    c.rank = r;
    c.ranks = kRanks;
    c.run_id = "run-1";
    c.limits.attempts = 1;
    c.report = [](const std::string&) {};
    Result<std::unique_ptr<Agent>> agent = Agent::start(c, ranks[r], r == 0 ? &sink : nullptr);
    if (!agent) return ADD_FAILURE() << agent.error().message, false;
    agents.push_back(std::move(*agent));
  }
  EXPECT_TRUE(soon([&] {
    const auto status = job_status(directory.path);
    return status && status->joined == kRanks;
  }));
  allocations = 0;
  failing = number;
  counts = true;
  [[maybe_unused]] const auto reply = request_checkpoint(directory.path, 60, false);
  EXPECT_TRUE(soon([&] {
    return std::ranges::all_of(ranks, [](const NotedRank& rank) { return rank.holds == rank.resumes; });
  })) << "a rank stays held after a failure of allocation "
      << number;
  counts = false;
  return allocations > number;
}

TEST(AgentMemory, NoRankStaysHeldWhereverItRunsOut) {
  long number = 0;
  while (checkpoint_without_allocation(number) && !HasFailure()) ++number;
  EXPECT_GT(number, 50);
}

}  // namespace
}  // namespace cropdl::coord
