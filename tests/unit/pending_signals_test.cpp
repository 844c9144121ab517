// links: cropdl_session
// Pending signals stay pending and in order, wherever memory runs out while they are read.
#include "restart/threads/pending_signals.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/caught.h"
#include "interpose/seam/layout.h"
#include "interpose/seam/state.h"
#include "restart/threads/program_threads.h"

namespace {
int allocations_left = -1;  // -1: unlimited
}  // namespace

__attribute__((noinline)) void* operator new(size_t size) {
  if (allocations_left == 0) throw std::bad_alloc();
  if (allocations_left > 0) --allocations_left;
  void* const memory = malloc(size);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
__attribute__((noinline)) void operator delete(void* memory) noexcept { free(memory); }
__attribute__((noinline)) void operator delete(void* memory, size_t) noexcept { free(memory); }

namespace {

using namespace cropdl;
using program_threads::PendingSignal;

void block_all() {
  const uint64_t all = ~uint64_t{0};  // not by the C library, which would leave its own signals unblocked
  ASSERT_EQ(syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, nullptr, sizeof all), 0);
}

// All pending signals, in order, as text.
std::vector<std::string> pending() {
  std::vector<std::string> all;
  for (const PendingSignal& p : program_threads::pending_signals(~uint64_t{0}))
    all.push_back((p.process ? "process " : "thread ") + p.info);
  return all;
}

void queue_for_this_thread(int signal, uint64_t value) {
  siginfo_t info{};
  info.si_code = SI_QUEUE;
  info.si_value.sival_ptr = reinterpret_cast<void*>(value);
  ASSERT_EQ(syscall(SYS_rt_tgsigqueueinfo, getpid(), syscall(SYS_gettid), signal, &info), 0);
}

TEST(PendingSignals, StayPendingIfMemoryRunsOut) {
  for (const auto& [at, size] :
       {std::pair(seam::kState, seam::kStateSize), std::pair(seam::kControlPage, seam::kControlPageSize)})
    ASSERT_NE(mmap(reinterpret_cast<void*>(at), size, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE | MAP_NORESERVE, -1, 0),
              MAP_FAILED);
  block_all();
  kill(getpid(), SIGUSR2);
  queue_for_this_thread(SIGUSR1, 1);
  for (uint64_t i = 1; i <= 5; ++i) queue_for_this_thread(SIGRTMIN + 2, i % 3);  // some values are equal
  const std::vector<std::string> before = pending();
  EXPECT_EQ(before.size(), 7u);
  int failed = 0;
  for (bool enough = false; !enough && failed < 10'000; failed += !enough) {
    allocations_left = failed;
    const Status read = caught([] { program_threads::pending_signals(~uint64_t{0}); });
    allocations_left = -1;
    enough = static_cast<bool>(read);
    ASSERT_EQ(pending(), before) << "after " << failed << " allocations";
  }
  EXPECT_GT(failed, 10);
}

TEST(PendingSignals, TheProgramsStopSignalsStayPendingWithoutMemory) {
  block_all();
  queue_for_this_thread(seam::kSuspendSignal, seam::kSuspendMagic);
  queue_for_this_thread(seam::kSuspendSignal, 7);
  queue_for_this_thread(seam::kSuspendSignal, seam::kSuspendMagic);
  allocations_left = 0;
  const bool ours_only = program_threads::forget_suspend_signals();
  allocations_left = -1;
  EXPECT_FALSE(ours_only);
  const uint64_t only = uint64_t{1} << (seam::kSuspendSignal - 1);
  const timespec now{};
  siginfo_t info{};
  const auto take = [&] { return syscall(SYS_rt_sigtimedwait, &only, &info, &now, sizeof only); };
  EXPECT_EQ(take(), seam::kSuspendSignal);
  EXPECT_EQ(reinterpret_cast<uint64_t>(info.si_value.sival_ptr), 7u);
  EXPECT_EQ(take(), -1);
}

}  // namespace
