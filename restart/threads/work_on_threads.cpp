#include "restart/threads/work_on_threads.h"

#include <linux/futex.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <utility>

#include "base/caught.h"
#include "base/format.h"
#include "interpose/seam/thread.h"
#include "interpose/upper/raw.h"
#include "restart/threads/tls_block.h"

namespace cropdl::program_threads {

using seam::ThreadRecord;

namespace {

struct Borrowed {
  uint64_t fs = 0, stack = 0;
  int32_t* id = nullptr;  // the C library's, in the block; null: unknown
};
Borrowed borrowed;  // for the process's life, like the lending thread; begin_work() has no C library

void* lend(void*) {
  borrowed.id = lend_block_to(0);
  borrowed.stack = (reinterpret_cast<uint64_t>(__builtin_frame_address(0)) - 4096) & ~15ull;
  __atomic_store_n(&borrowed.fs, seam::by_kernel::fs_base(), __ATOMIC_SEQ_CST);
  rest_for_ever();
}

struct Work {
  const std::function<Status()>* run;
  uint32_t done = 0;
  Status status;
};

// Nothing may be thrown into the frames of the program.
void run_work(void* argument, long) {
  auto* work = static_cast<Work*>(argument);
  // A lock that nobody holds has owner 0, so a thread with the id 0 would seem to hold it already
  // (pthread_rwlock_rdlock: EDEADLK). UCX, whose hooks in mmap use one, ends the process then.
  if (borrowed.id != nullptr) *borrowed.id = static_cast<int32_t>(syscall(SYS_gettid));
  work->status = caught([work] { return (*work->run)(); });
  if (borrowed.id != nullptr) *borrowed.id = 0;
}

// With the thread's own FS base, on its signal stack: uses no C library.
__attribute__((optimize("no-stack-protector"))) void begin_work(ThreadRecord* t) {
  auto* work = reinterpret_cast<Work*>(t->task_argument);
  seam::call_on_stack(reinterpret_cast<void*>(run_work), work, 0, borrowed.fs, borrowed.stack);
  __atomic_store_n(&work->done, 1u, __ATOMIC_SEQ_CST);
  upper::raw(SYS_futex, reinterpret_cast<long>(&work->done), FUTEX_WAKE_PRIVATE, INT_MAX);
}

}  // namespace

Status have_block() {
  if (borrowed.fs != 0) return {};
  constexpr size_t kStack = 512 << 10;
  void* stack = mmap(nullptr, kStack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
  const int error = stack == MAP_FAILED ? errno : start_thread(lend, nullptr, stack, kStack);
  if (error != 0 && stack != MAP_FAILED) munmap(stack, kStack);
  if (error != 0)
    return Error{
        "cannot start a thread of the lower half: {}; this user or container may have no more (ulimit -u)",
        errno_text(error)};
  while (__atomic_load_n(&borrowed.fs, __ATOMIC_SEQ_CST) == 0) sched_yield();
  return {};
}

void wake(ThreadRecord& t) {
  __atomic_fetch_add(&t.wake, 1, __ATOMIC_SEQ_CST);
  syscall(SYS_futex, &t.wake, FUTEX_WAKE_PRIVATE, INT_MAX);
}

Status run_on(ThreadRecord& t, const std::function<Status()>& run) {
  if (Status ready = have_block(); !ready) return ready;
  Work work{&run, 0, {}};
  t.task_argument = reinterpret_cast<uint64_t>(&work);
  __atomic_store_n(&t.task, &begin_work, __ATOMIC_SEQ_CST);
  wake(t);
  while (__atomic_load_n(&work.done, __ATOMIC_SEQ_CST) == 0)
    syscall(SYS_futex, &work.done, FUTEX_WAIT_PRIVATE, 0, nullptr);
  // The thread uses `work` until it clears its task.
  while (__atomic_load_n(&t.task, __ATOMIC_SEQ_CST) != nullptr) sched_yield();
  return std::move(work.status);
}

std::string name_of(const ThreadRecord& t, const std::string& comm) {
  return formatted("thread {} ({})", t.virtual_tid, comm);
}

}  // namespace cropdl::program_threads
