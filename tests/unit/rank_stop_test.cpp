// links: cropdl_session
// When a rank counts as stopped. The test's main thread acts as the agent, another thread as the program.
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <atomic>
#include <new>
#include <thread>

#include <gtest/gtest.h>

#include "restart/session/rank.h"
#include "restart/threads/program_threads.h"

namespace {

using namespace cropdl;

// A library whose resume() takes as long as the test wants.
class SlowMpi : public libraries::Library {
 public:
  std::atomic<bool> reposting{false}, may_end{false}, no_memory_to_drain{false};
  std::string why_not_quiet;

  std::vector<Table> seam_tables() override { return {}; }
  seam::LibraryNumber number() override { return seam::kLibraryMpi; }
  const char* implementation() override { return "test"; }
  Status restart() override { return {}; }
  bool active() override { return true; }
  void add_counts(std::vector<coord::CollectiveCount>&, uint64_t (*)(uint64_t)) override {}
  void fill_status(coord::RankStatus&) override {}
  std::string refusal() override { return ""; }
  void begin_drain(std::span<const coord::PeerCount>) override {}
  bool drain_step() override {
    if (no_memory_to_drain) throw std::bad_alloc();
    return true;
  }
  std::string drain_trouble() override { return ""; }
  Status quiesce() override { return why_not_quiet.empty() ? Status() : Status(Error{why_not_quiet}); }
  void resume() override {
    reposting = true;
    while (!may_end) usleep(100);
    reposting = false;
  }
};

void* map_at(uintptr_t address, size_t size) {
  return mmap(reinterpret_cast<void*>(address), size, PROT_READ | PROT_WRITE,
              MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE | MAP_NORESERVE, -1, 0);
}

// Once per process: the seam's memory, and a handler for the signal that stops the program.
void prepare() {
  static const bool there = map_at(seam::kControlPage, seam::kControlPageSize) != MAP_FAILED &&
                            map_at(seam::kState, seam::kStateSize) != MAP_FAILED;
  ASSERT_TRUE(there);
  signal(seam::kSuspendSignal, [](int) {});
}

bool try_stop(session::Rank& rank) {
  Status failure;
  const bool stopped = rank.try_stop(&failure);
  EXPECT_TRUE(failure);
  return stopped;
}

session::Rank::Saving saving() {
  return {[] { return Status(); },
          [](const std::string&, const boundaries::Tracker&) -> Result<coord::ImageSummary> {
            return coord::ImageSummary{};
          }};
}

TEST(Rank, IsNotStoppedWhileItIsOnItsWayBackToTheProgram) {
  prepare();
  SlowMpi mpi;
  session::Rank rank(libraries::Libraries({&mpi}), saving());
  rank.ready();

  std::atomic<bool> wanted{false}, ended{false};
  std::atomic<int> returned{0};
  std::thread program([&] {
    seam::state()->threads[0].tid = static_cast<int32_t>(syscall(SYS_gettid));
    while (!ended) {
      if (wanted) rank.serve(), ++returned;
      usleep(100);
    }
  });
  while (seam::state()->threads[0].tid == 0) usleep(100);

  rank.hold();
  EXPECT_FALSE(try_stop(rank));
  wanted = true;
  while (!try_stop(rank)) usleep(100);
  rank.begin_drain({});
  Status failure;
  coord::ImageSummary summary;
  while (!rank.drained(&failure)) usleep(100);
  rank.begin_write("somewhere");
  while (!rank.written(&failure, &summary)) usleep(100);
  wanted = false;
  rank.resume();
  // The next attempt starts before the thread has noticed the resume, while it posts its receives again: it
  // is not stopped yet, since it may still send.
  rank.hold();
  EXPECT_FALSE(try_stop(rank));
  while (!mpi.reposting) usleep(100);
  for (int i = 0; i < 20; ++i) {
    EXPECT_FALSE(try_stop(rank));
    usleep(500);
  }
  mpi.may_end = true;
  while (!try_stop(rank)) usleep(100);  // the thread is back, with its receives posted
  EXPECT_FALSE(mpi.reposting);
  EXPECT_EQ(returned, 0);
  rank.resume();
  while (returned == 0) usleep(100);
  ended = true;
  program.join();
}

// Reasons to refuse are checked on the program's thread, before the rank counts as stopped. A rank without a
// reason at the next stop is not refused.
TEST(Rank, ReportsReasonsFoundByTheStoppedThread) {
  prepare();
  SlowMpi mpi;
  mpi.may_end = true;
  std::atomic<bool> looking{false}, may_look{false}, ended{false};
  std::string seen = "an open thing (descriptor 7) cannot be saved yet";
  session::Rank rank(libraries::Libraries({&mpi}),
                     {[&] {
                        looking = true;
                        while (!may_look) usleep(100);
                        return seen.empty() ? Status() : Status(Error{seen});
                      },
                      [](const std::string&, const boundaries::Tracker&) -> Result<coord::ImageSummary> {
                        return coord::ImageSummary{};
                      }});
  rank.ready();
  std::atomic<bool> wanted{true};
  std::thread program([&] {
    seam::state()->threads[0].tid = static_cast<int32_t>(syscall(SYS_gettid));
    while (!ended) {
      if (wanted) rank.serve();
      usleep(100);
    }
  });
  const auto stop = [&] {
    rank.hold();
    while (!try_stop(rank)) usleep(1000);
    return rank.refusal_when_stopped();
  };
  rank.hold();
  while (!looking) {
    EXPECT_FALSE(try_stop(rank));
    usleep(1000);
  }
  for (int i = 0; i < 20; ++i) EXPECT_FALSE(try_stop(rank));
  rank.resume();  // aborted during the check; the next attempt checks again
  may_look = true;
  EXPECT_EQ(stop(), seen);
  rank.resume();
  seen.clear();
  EXPECT_EQ(stop().find("descriptor 7"), std::string::npos);
  rank.resume();
  ended = true;
  program.join();
}

TEST(Rank, WritesNothingIfALibraryCannotBeQuieted) {
  prepare();
  SlowMpi mpi;
  mpi.may_end = true;
  mpi.why_not_quiet = "MPI_Irecv: no";
  std::atomic<int> writes{0};
  std::atomic<bool> wanted{true}, ended{false};
  session::Rank rank(libraries::Libraries({&mpi}),
                     {[] { return Status(); },
                      [&](const std::string&, const boundaries::Tracker&) -> Result<coord::ImageSummary> {
                        ++writes;
                        return coord::ImageSummary{};
                      }});
  rank.ready();
  std::thread program([&] {
    seam::state()->threads[0].tid = static_cast<int32_t>(syscall(SYS_gettid));
    while (!ended) {
      if (wanted) rank.serve();
      usleep(100);
    }
  });
  const auto write = [&] {
    rank.hold();
    while (!try_stop(rank)) usleep(1000);
    Status failure;
    coord::ImageSummary summary;
    rank.begin_write("somewhere");
    while (!rank.written(&failure, &summary)) usleep(100);
    rank.resume();
    return failure ? std::string() : failure.error().message;
  };
  EXPECT_EQ(write(), mpi.why_not_quiet);
  EXPECT_EQ(writes, 0);
  mpi.why_not_quiet.clear();
  EXPECT_EQ(write(), "");
  EXPECT_EQ(writes, 1);
  ended = true;
  program.join();
}

// The main thread makes a thread after the agent has scanned the others, and before it parks itself.
TEST(Rank, IsNotStoppedByAScanBeforeItsMainThreadParked) {
  prepare();
  SlowMpi mpi;
  mpi.may_end = true;
  std::atomic<bool> looked{false}, wanted{false}, ended{false};
  session::Rank rank(libraries::Libraries({&mpi}),
                     {[&] {
                        looked = true;
                        return Status();
                      },
                      [](const std::string&, const boundaries::Tracker&) -> Result<coord::ImageSummary> {
                        return coord::ImageSummary{};
                      }});
  rank.ready();
  auto* state = seam::state();
  state->threads[0].tid = 0;
  std::thread program([&] {
    state->threads[0].tid = static_cast<int32_t>(syscall(SYS_gettid));
    while (!ended) {
      if (wanted) rank.serve();
      usleep(100);
    }
  });
  while (state->threads[0].tid == 0) usleep(100);
  rank.hold();
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(try_stop(rank));

  auto& made = state->threads[5];
  made.kind = seam::kOtherThread;
  made.tid = 0;
  made.parked = 0;
  made.used = seam::kLive;
  state->threads_high = 6;
  state->threads_made = state->threads_made + 1;
  wanted = true;  // the main thread parks only now
  for (int i = 0; i < 20; ++i) {
    EXPECT_FALSE(try_stop(rank));
    usleep(500);
  }
  EXPECT_FALSE(looked);
  made.parked = seam::control()->stop;
  while (!try_stop(rank)) usleep(100);
  EXPECT_TRUE(looked);
  wanted = false;
  made.used = seam::kFree;
  rank.resume();
  ended = true;
  program.join();
}

// A signal that any thread has unblocked is not blocked, also if the main thread has ended.
TEST(Signals, AreBlockedIfAllThreadsBlockThem) {
  prepare();
  constexpr uint64_t kOne = 1 << 14, kOther = 1 << 11;
  ucontext_t main{}, other{};
  main.uc_sigmask.__val[0] = kOne;
  other.uc_sigmask.__val[0] = kOther;
  auto* state = seam::state();
  state->threads[0].context = reinterpret_cast<uint64_t>(&main);
  state->threads[5].context = reinterpret_cast<uint64_t>(&other);
  EXPECT_EQ(program_threads::blocked_everywhere(), kOne);
  state->threads[5].kind = seam::kOtherThread;
  state->threads[5].used = seam::kLive;
  state->threads_high = 6;
  EXPECT_EQ(program_threads::blocked_everywhere(), 0u);
  state->threads[0].gone = 1;
  EXPECT_EQ(program_threads::blocked_everywhere(), kOther);
  state->threads[0].gone = 0;
  state->threads[5].used = seam::kFree;
}

// Lack of memory fails the checkpoint with one line. An exception out of serve() would end the program.
TEST(Rank, FailsACheckpointWithoutMemoryAndContinues) {
  prepare();
  SlowMpi mpi;
  mpi.may_end = true;
  std::atomic<bool> ended{false}, no_memory_to_look{true};
  session::Rank rank(libraries::Libraries({&mpi}),
                     {[&] {
                        if (no_memory_to_look) throw std::bad_alloc();
                        return Status();
                      },
                      [](const std::string&, const boundaries::Tracker&) -> Result<coord::ImageSummary> {
                        throw std::bad_alloc();
                      }});
  rank.ready();
  std::thread program([&] {
    seam::state()->threads[0].tid = static_cast<int32_t>(syscall(SYS_gettid));
    while (!ended) {
      rank.serve();
      usleep(100);
    }
  });
  while (seam::state()->threads[0].tid == 0) usleep(100);
  const std::string expected = "this rank has no memory left";
  Status failure;
  coord::ImageSummary summary;

  rank.hold();
  while (!try_stop(rank)) usleep(100);
  EXPECT_EQ(rank.refusal_when_stopped().find(expected), 0u) << rank.refusal_when_stopped();
  rank.resume();
  no_memory_to_look = false;
  rank.hold();
  while (!try_stop(rank)) usleep(100);
  EXPECT_EQ(rank.refusal_when_stopped(), "");
  mpi.no_memory_to_drain = true;
  rank.begin_drain({});
  while (failure) EXPECT_FALSE(rank.drained(&failure));
  EXPECT_EQ(failure.error().message.find(expected), 0u) << failure.error().message;
  mpi.no_memory_to_drain = false;
  failure = Status();
  rank.begin_drain({});
  while (!rank.drained(&failure)) usleep(100);
  EXPECT_TRUE(failure);
  rank.begin_write("somewhere");
  while (!rank.written(&failure, &summary)) usleep(100);
  ASSERT_FALSE(failure);
  EXPECT_EQ(failure.error().message.find(expected), 0u) << failure.error().message;
  rank.resume();
  ended = true;
  program.join();
}

TEST(Rank, RefusesAnAttemptThatItDidNotHoldIn) {
  SlowMpi mpi;
  session::Rank rank(libraries::Libraries({&mpi}), saving());
  rank.hold();   // too early, so it is ignored
  rank.ready();  // now the program begins
  EXPECT_NE(rank.status().refusal, "");
  EXPECT_FALSE(try_stop(rank));
  rank.resume();
}

}  // namespace
