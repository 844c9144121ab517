// Makes the program's threads again (program_threads.h).
#include <linux/futex.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <iterator>

#include "base/format.h"
#include "interpose/upper/raw.h"
#include "restart/threads/program_threads.h"
#include "restart/threads/work_on_threads.h"

extern "C" {
long cropdl_clone_thread(uint64_t flags, uint64_t stack, int32_t* tid, void (*)(cropdl::seam::ThreadRecord*),
                         cropdl::seam::ThreadRecord*);
[[noreturn]] void cropdl_continue(uint64_t context, uint64_t fs, cropdl::seam::ThreadRecord*);
}

namespace cropdl::program_threads {

using seam::ThreadRecord;

namespace {

// Threads run here until go_on_with_threads(), without a C library, and know no more than their records.
enum Gate : uint32_t { kShut, kOpen, kEnd };
uint32_t gate = kShut;

__attribute__((optimize("no-stack-protector"))) void begin_thread(ThreadRecord* t) {
  register_rseq(t);
  if (t->clear_tid != 0) upper::raw(SYS_set_tid_address, static_cast<long>(t->clear_tid));
  if (t->robust_list != 0)
    upper::raw(SYS_set_robust_list, static_cast<long>(t->robust_list), static_cast<long>(t->robust_size));
  for (;;) {
    const uint32_t wakes = __atomic_load_n(&t->wake, __ATOMIC_SEQ_CST);
    if (auto* task = t->task; task != nullptr) {
      task(t);
      __atomic_store_n(&t->task, nullptr, __ATOMIC_SEQ_CST);
      continue;
    }
    if (__atomic_load_n(&gate, __ATOMIC_SEQ_CST) == kOpen) break;
    upper::raw(SYS_futex, reinterpret_cast<long>(&t->wake), FUTEX_WAIT_PRIVATE, wakes, 0);
  }
  cropdl_continue(t->context, t->stopped_fs, t);
}

__attribute__((optimize("no-stack-protector"))) void end_thread(ThreadRecord*) {
  while (__atomic_load_n(&gate, __ATOMIC_SEQ_CST) != kEnd)
    upper::raw(SYS_futex, reinterpret_cast<long>(&gate), FUTEX_WAIT_PRIVATE, kShut, 0);
  upper::raw(SYS_exit, 0);
}

constexpr size_t kFirstStack = 16 << 10;  // for begin_thread; run_on's work uses the lending thread's stack

// Maps one block for all first stacks. Each thread uses a few words of its own until it continues.
Result<uint64_t> first_stacks(size_t count) {
  void* p = mmap(nullptr, count * kFirstStack, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) return Error{"cannot have memory for the program's threads: " + errno_text(errno)};
  return reinterpret_cast<uint64_t>(p);
}

constexpr uint64_t kThread =
    CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM | CLONE_PARENT_SETTID;

Error cannot_make(size_t made, size_t count, long error) {
  return Error{
      "the program has {} threads, and no more than {} can be had here: {} (ulimit -u, or the pids "
      "limit of a batch system)",
      count + 1, made + 1, errno_text(static_cast<int>(-error))};
}

}  // namespace

Status try_threads(const std::vector<SavedThread>& threads) {
  if (threads.empty()) return {};
  const auto stacks = first_stacks(threads.size());
  if (!stacks) return stacks.error();
  std::vector<int32_t> tids(threads.size());
  size_t made = 0;
  long result = 0;
  for (; made < threads.size(); ++made) {
    result =
        cropdl_clone_thread(kThread, *stacks + (made + 1) * kFirstStack, &tids[made], end_thread, nullptr);
    if (upper::failed(result)) break;
  }
  __atomic_store_n(&gate, kEnd, __ATOMIC_SEQ_CST);
  syscall(SYS_futex, &gate, FUTEX_WAKE_PRIVATE, INT_MAX);
  for (size_t i = 0; i < made; ++i)  // once its tid is gone, a thread no longer uses its stack
    while (syscall(SYS_tgkill, getpid(), tids[i], 0) == 0) sched_yield();
  gate = kShut;
  munmap(reinterpret_cast<void*>(*stacks), threads.size() * kFirstStack);
  if (made < threads.size()) return cannot_make(made, threads.size(), result);
  return {};
}

Status make_threads(const std::vector<SavedThread>& threads, std::string* note) {
  auto* s = seam::state();
  // Ids of threads that had ended before the cut mean nothing any more (ids.cpp).
  for (uint32_t i = 1; i < s->threads_high; ++i)
    if (ThreadRecord& t = s->threads[i]; t.used == seam::kFree) t.tid = t.virtual_tid = 0;
  if (threads.empty()) return {};
  if (Status ready = have_block(); !ready) return ready;  // its thread counts before the program's
  const auto stacks = first_stacks(threads.size());
  if (!stacks) return stacks.error();
  size_t lost = 0;
  std::string example;
  for (size_t i = 0; i < threads.size(); ++i) {
    const SavedThread& saved = threads[i];
    if (saved.record == 0 || saved.record >= seam::kMaxThreads ||
        s->threads[saved.record].used != seam::kLive)
      return Error{"the image's list of threads does not fit its records"};
    ThreadRecord& t = s->threads[saved.record];
    t.lower_fs = t.upper_fs = t.lower_sp = 0;
    t.lower_selector = t.upper_selector = 0;
    t.cpu_before = saved.cpu;
    for (size_t w = 0; w < std::size(t.usage_before); ++w)
      t.usage_before[w] = w < saved.usage.size() ? saved.usage[w] : 0;
    const long made = cropdl_clone_thread(kThread, *stacks + (i + 1) * kFirstStack, &t.tid, begin_thread, &t);
    if (upper::failed(made)) return cannot_make(i, threads.size(), made);
    std::string differs;
    Status queued = run_on(t, [&] {
      prctl(PR_SET_NAME, saved.name.c_str());
      differs = process::put_back_differing(saved.attributes);
      std::vector<PendingSignal> pending;
      for (const std::string& info : saved.pending) pending.push_back({false, info});
      return queue_again(pending);
    });
    if (!queued) return queued;
    if (!differs.empty() && ++lost == 1) example = name_of(t, saved.name) + ": " + differs;
  }
  if (lost != 0)
    *note = formatted("not put back of the program's threads, which have what the main thread has: {}{}",
                      example, lost > 1 ? formatted(", and likewise of {} more", lost - 1) : "");
  return {};
}

__attribute__((optimize("no-stack-protector"))) void register_rseq(const ThreadRecord* t) {
  if (t->rseq == 0) return;
  if (upper::raw(SYS_rseq, static_cast<long>(t->rseq), t->rseq_length, 0, t->rseq_signature) == 0) return;
  constexpr size_t kCpu = 4;  // offset of cpu_id in struct rseq (include/uapi/linux/rseq.h)
  *reinterpret_cast<volatile int32_t*>(t->rseq + kCpu) = -1;
}

void go_on_with_threads() {
  __atomic_store_n(&gate, kOpen, __ATOMIC_SEQ_CST);
  each_thread(wake);
}

}  // namespace cropdl::program_threads
