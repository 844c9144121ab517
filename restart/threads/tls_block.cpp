#include "restart/threads/tls_block.h"

#include <asm/ldt.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/rseq.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "interpose/seam/thread.h"

namespace cropdl::program_threads {
namespace {

// The TLS block is at the upper end of its thread's stack (nptl/allocatestack.c), which else serves pause().
constexpr size_t kStack = 64 << 10;

constexpr unsigned kStacks = (seam::kLowEnd - seam::kLowBegin) / kStack;
unsigned stacks_used;  // for the process's life, like the segments: nothing is given back
bool no_low_memory;

constexpr unsigned kSegments = 4096;  // of at most 8192 in a table
uint64_t segments[kSegments];         // their bases
unsigned segments_used;
int segments_lock;

// Writes a segment descriptor (set_thread_area(2)) with modify_ldt's func 0x11 (man 2 modify_ldt).
bool write_descriptor(unsigned index, uint64_t base) {
  user_desc d{};
  d.entry_number = index;
  d.base_addr = static_cast<unsigned>(base);
  d.limit = 0xfffff;
  d.seg_32bit = 1;
  d.limit_in_pages = 1;
  d.useable = 1;
  return upper::raw(SYS_modify_ldt, 0x11, reinterpret_cast<long>(&d), sizeof d) == 0;
}

// Some virtual machines accept the descriptor, but the processor does not see it.
bool can_be_read(uint32_t selector) {
  bool can;
  __asm__ volatile("verr %w1" : "=@ccz"(can) : "r"(selector));
  return can;
}

// Returns the selector of a segment with this base, made if necessary; 0 if none is possible.
uint32_t selector_of(uint64_t base) {
  constexpr uint32_t kLocalTable = 4, kUser = 3;  // selector: index, table, privilege (AMD64 manual 2, 4.5)
  if (base == 0 || base >> 32 != 0) return 0;
  unsigned index = 0;
  while (index < segments_used && segments[index] != base) ++index;
  if (index == kSegments) return 0;
  const uint32_t selector = index << 3 | kLocalTable | kUser;
  if (index == segments_used) {
    if (!write_descriptor(index, base) || !can_be_read(selector)) return 0;
    segments[segments_used++] = base;
  }
  return selector;
}

struct Borrowed {
  int32_t borrower = 0;
  uint64_t fs = 0;  // 0: cannot be lent
  sem_t lent;
};

void* lend(void* argument) {
  auto* borrowed = static_cast<Borrowed*>(argument);
  if (lend_block_to(borrowed->borrower) != nullptr) borrowed->fs = seam::by_kernel::fs_base();
  sem_post(&borrowed->lent);
  rest_for_ever();
}

// noinline, no stack protector: no register may point into the former TLS block when this function returns.
__attribute__((noinline, optimize("no-stack-protector"))) void change_block(uint64_t fs) {
  seam::by_kernel::set_fs_base(fs);
}

}  // namespace

int start_thread(void* (*run)(void*), void* argument, void* stack, size_t size) {
  // Blocks signals without the C library, which would leave signal 33, the suspend signal, unblocked.
  // (signal_mask_overrides.cpp corrects that, but not every program that links this file has it.) A suspend
  // signal may have stopped the caller; a second one would overwrite the first one's frame.
  const uint64_t all = ~0ull;
  uint64_t old = 0;
  pthread_t thread;
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  if (stack != nullptr) pthread_attr_setstack(&attributes, stack, size);
  upper::raw(SYS_rt_sigprocmask, SIG_SETMASK, reinterpret_cast<long>(&all), reinterpret_cast<long>(&old), 8);
  const int error = pthread_create(&thread, &attributes, run, argument);
  upper::raw(SYS_rt_sigprocmask, SIG_SETMASK, reinterpret_cast<long>(&old), 0, 8);
  pthread_attr_destroy(&attributes);
  return error;
}

int start_lender(void* (*run)(void*), void* argument) {
  void* const at = reinterpret_cast<void*>(seam::kLowBegin + stacks_used * kStack);
  if (!no_low_memory && stacks_used < kStacks &&
      mmap(at, kStack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) ==
          at) {
    ++stacks_used;
    const int error = start_thread(run, argument, at, kStack);
    if (error != EINVAL) return error;  // EINVAL: too little room for the C library's static TLS
  }
  return start_thread(run, argument);
}

void let_go_of_rseq() {
  syscall(SYS_rseq, reinterpret_cast<char*>(seam::by_kernel::fs_base()) + __rseq_offset, sizeof(struct rseq),
          RSEQ_FLAG_UNREGISTER, RSEQ_SIG);
}

int32_t* lend_block_to(int32_t borrower) {
  let_go_of_rseq();
  // At the thread's end the kernel clears the C library's copy of the id (man 2 set_tid_address).
  int32_t* id = nullptr;
  if (prctl(PR_GET_TID_ADDRESS, &id) != 0 || id == nullptr ||
      *id != static_cast<int32_t>(syscall(SYS_gettid)))
    return nullptr;
  *id = borrower;
  return id;
}

void make_segments(seam::ThreadRecord* thread) {
  while (__atomic_exchange_n(&segments_lock, 1, __ATOMIC_ACQUIRE) != 0) upper::raw(SYS_sched_yield);
  thread->lower_selector = selector_of(thread->lower_fs);
  thread->upper_selector = selector_of(thread->upper_fs);
  __atomic_store_n(&segments_lock, 0, __ATOMIC_RELEASE);
}

void leave_low_memory_alone() { no_low_memory = true; }

void continue_on_low_tls_block() {
  if (no_low_memory) return;
  Borrowed borrowed;
  borrowed.borrower = static_cast<int32_t>(syscall(SYS_gettid));
  sem_init(&borrowed.lent, 0, 0);
  if (start_lender(lend, &borrowed) == 0) sem_wait(&borrowed.lent);
  if (borrowed.fs != 0 && borrowed.fs >> 32 == 0) change_block(borrowed.fs);
}

}  // namespace cropdl::program_threads
