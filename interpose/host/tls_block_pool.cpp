#include <linux/futex.h>
#include <sys/syscall.h>

#include <climits>

#include "interpose/host/process.h"
#include "interpose/seam/thread.h"
#include "interpose/upper/raw.h"
#include "restart/threads/tls_block.h"

namespace cropdl::host {
namespace {

// The one pending request. `broker`, with its own FS base, starts the thread. The low 32 bits are the futex.
seam::ThreadRecord* volatile wanted;

void wait_on(volatile void* word, int value) {
  upper::raw(SYS_futex, upper::as_word(word), FUTEX_WAIT_PRIVATE, value, 0);
}
void wake(volatile void* word) { upper::raw(SYS_futex, upper::as_word(word), FUTEX_WAKE_PRIVATE, INT_MAX); }

// By record: where the C library has its thread id in the TLS block. The next thread gets the same block.
int32_t* numbers[seam::kMaxThreads];

int32_t*& number_in_block(const seam::ThreadRecord* thread) {
  return numbers[thread - seam::state()->threads];
}

void* lender(void* record) {
  auto* thread = static_cast<seam::ThreadRecord*>(record);
  number_in_block(thread) = program_threads::lend_block_to(thread->tid);
  thread->lower_sp = (reinterpret_cast<uint64_t>(__builtin_frame_address(0)) - 1024) & ~15ull;
  __atomic_store_n(&thread->lower_fs, seam::by_kernel::fs_base(), __ATOMIC_SEQ_CST);
  wake(&thread->lower_fs);
  program_threads::rest_for_ever();
}

void* broker(void*) {
  for (;;) {
    seam::ThreadRecord* record = __atomic_load_n(&wanted, __ATOMIC_SEQ_CST);
    if (record == nullptr) {
      wait_on(&wanted, 0);
      continue;
    }
    if (const int error = program_threads::start_lender(lender, record);
        error != 0)  // the program's thread cannot continue
      die("cannot start a thread of the lower half: " + errno_text(error));
    __atomic_store_n(&wanted, nullptr, __ATOMIC_SEQ_CST);
    wake(&wanted);
  }
}

}  // namespace

Status start_tls_block_pool() {
  if (const int error = program_threads::start_thread(broker, nullptr); error != 0)
    return Error{
        "cannot start a thread of the lower half: {}; this user or container may have no more (ulimit -u)",
        errno_text(error)};
  return {};
}

__attribute__((optimize("no-stack-protector"))) static void wait_for_tls_block(seam::ThreadRecord* thread) {
  for (;;) {
    seam::ThreadRecord* expected = nullptr;
    if (__atomic_compare_exchange_n(&wanted, &expected, thread, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
      break;
    wait_on(&wanted, static_cast<int>(reinterpret_cast<uint64_t>(expected)));
  }
  wake(&wanted);
  while (__atomic_load_n(&thread->lower_fs, __ATOMIC_SEQ_CST) == 0) wait_on(&thread->lower_fs, 0);
}

__attribute__((optimize("no-stack-protector"))) void lend_lower_fs(seam::ThreadRecord* thread) {
  if (thread->lower_fs == 0)
    wait_for_tls_block(thread);
  else if (int32_t* number = number_in_block(thread); number != nullptr)
    *number = thread->tid;
  program_threads::make_segments(thread);
}

}  // namespace cropdl::host
