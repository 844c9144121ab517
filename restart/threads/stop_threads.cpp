// Stops the program's threads, and lets them go on after a checkpoint (program_threads.h).
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "base/format.h"
#include "base/procfs.h"
#include "interpose/seam/control_page.h"
#include "restart/threads/program_threads.h"
#include "restart/threads/work_on_threads.h"

namespace cropdl::program_threads {

using seam::ThreadRecord;

namespace {

// Whether a leaving thread has ended. Its tid may be a newer thread's by now: the program's, which has a
// record, or the LH's, which started later (man 5 proc_pid_stat, starttime).
bool is_gone(const ThreadRecord& t) {
  if (syscall(SYS_tgkill, getpid(), t.tid, 0) != 0) return errno == ESRCH;
  const auto* s = seam::state();
  for (uint32_t i = 0; i < s->threads_high; ++i)
    if (s->threads[i].used == seam::kLive && s->threads[i].tid == t.tid) return true;
  static const uint64_t tick = 1'000'000'000ull / static_cast<uint64_t>(sysconf(_SC_CLK_TCK));
  const std::string began = process_stat(formatted("self/task/{}", t.tid), 22);
  return !began.empty() && strtoull(began.c_str(), nullptr, 10) > t.left / tick;
}

bool queue_was_full = false;  // when a suspend signal was last to be queued

}  // namespace

void begin_thread_stop() {
  queue_was_full = false;
  auto* page = seam::writable_control;
  if (page->stop == page->released) {
    __atomic_store_n(&page->stop, page->stop + 1, __ATOMIC_SEQ_CST);
    return;
  }
  // The main thread has not released the previous stop yet. A thread asked during that stop may have left the
  // LH while no stop was requested, so all are asked again.
  ask_again();
}

void ask_again() {
  auto* s = seam::state();
  for (uint32_t i = 0; i < s->threads_high || i == 0; ++i)
    __atomic_store_n(&s->threads[i].asked, 0, __ATOMIC_SEQ_CST);
}

bool stop_threads() {
  auto* s = seam::state();
  const uint32_t stop = seam::control()->stop;
  const uint32_t made = __atomic_load_n(&s->threads_made, __ATOMIC_SEQ_CST);
  bool all = true;
  for (uint32_t i = 1; i < s->threads_high; ++i) {
    ThreadRecord& t = s->threads[i];
    const int32_t use = __atomic_load_n(&t.used, __ATOMIC_SEQ_CST);
    if (use == seam::kFree || t.kind == seam::kSpawnedChild) continue;
    if (use == seam::kLive && __atomic_load_n(&t.parked, __ATOMIC_SEQ_CST) == stop) continue;
    const int32_t tid = __atomic_load_n(&t.tid, __ATOMIC_SEQ_CST);
    if (use == seam::kLeaving && is_gone(t)) {
      int32_t leaving = seam::kLeaving;
      __atomic_compare_exchange_n(&t.used, &leaving, seam::kFree, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
      continue;
    }
    all = false;
    // A thread without a tid is still being created.
    if (use == seam::kLive && tid != 0) ask_to_stop(t);
  }
  // A thread created meanwhile may have a record that this loop had passed already.
  return all && made == __atomic_load_n(&s->threads_made, __ATOMIC_SEQ_CST);
}

bool threads_only_send(bool main_serves) {
  const auto* s = seam::state();
  const uint32_t stop = seam::control()->stop;
  const uint32_t made = __atomic_load_n(&s->threads_made, __ATOMIC_SEQ_CST);
  if (!main_serves && s->threads[0].sending == 0) return false;
  for (uint32_t i = 1; i < s->threads_high; ++i) {
    const ThreadRecord& t = s->threads[i];
    const int32_t use = __atomic_load_n(&t.used, __ATOMIC_SEQ_CST);
    if (use != seam::kLive || t.kind == seam::kSpawnedChild) continue;  // a leaving thread makes no calls
    if (t.sending == 0 && __atomic_load_n(&t.parked, __ATOMIC_SEQ_CST) != stop) return false;
  }
  return made == __atomic_load_n(&s->threads_made, __ATOMIC_SEQ_CST);
}

// One signal is enough: a thread that cannot take it in the LH parks as it leaves; else the core asks again.
void ask_to_stop(ThreadRecord& t) {
  const uint32_t stop = seam::control()->stop;
  if (__atomic_load_n(&t.asked, __ATOMIC_SEQ_CST) == stop) return;
  __atomic_store_n(&t.asked, stop, __ATOMIC_SEQ_CST);
  siginfo_t info{};
  info.si_code = SI_QUEUE;
  info.si_value.sival_ptr = reinterpret_cast<void*>(seam::kSuspendMagic);
  const bool queued = syscall(SYS_rt_tgsigqueueinfo, getpid(), t.tid, seam::kSuspendSignal, &info) == 0;
  queue_was_full = !queued && errno == EAGAIN;
  if (!queued) t.asked = 0;
}

bool signal_queue_is_full() { return queue_was_full; }

// Allocates nothing: what it has taken may not be lost. The program's come one at a time (see
// read_pending_signals); of more than kMost, the rest and what is behind them stays pending.
bool forget_suspend_signals() noexcept {
  constexpr size_t kMost = 32;
  siginfo_t programs[kMost];
  size_t taken = 0;
  while (taken < kMost) {
    siginfo_t& info = programs[taken];
    info = {};
    if (take_signal(1ull << (seam::kSuspendSignal - 1), &info) <= 0) break;
    const bool ours = info.si_code == SI_QUEUE &&
                      reinterpret_cast<uint64_t>(info.si_value.sival_ptr) == seam::kSuspendMagic;
    if (!ours) ++taken;
  }
  for (size_t i = 0; i < taken; ++i)
    syscall(SYS_rt_tgsigqueueinfo, getpid(), syscall(SYS_gettid), seam::kSuspendSignal, &programs[i]);
  return taken == 0;
}

void release_threads() {
  auto* page = seam::writable_control;
  __atomic_store_n(&page->released, page->stop, __ATOMIC_SEQ_CST);
  each_thread([&](ThreadRecord& t) {
    if (t.parked == page->stop) wake(t);
  });
}

}  // namespace cropdl::program_threads
