// The gate from a shim in the upper half into a function of the lower half. UH only; any UH thread; UH FS
// base before and after. No lock, no allocation, no system call.
#pragma once

#include "interpose/seam/thread.h"

namespace cropdl::seam {

// For a thread that comes for the first time, has changed its FS base, or has no segments.
__attribute__((cold, noinline, optimize("no-stack-protector"))) inline void enter_slowly(ThreadRecord* t,
                                                                                         uint64_t upper) {
  if (t->lower_fs == 0 || t->upper_fs != upper) {
    t->upper_fs = upper;
    control()->lend_lower_fs(t);
  }
  use_lower_fs(t);
}

// Calls entry `index` of the table that `*table` (a field of the control page) points at, with FS switched to
// the thread's LH base. Everything that belongs to this run's LH is loaded after the thread is pinned and
// forgotten before it is unpinned: a checkpoint between a load and its use would save an address that no
// later run has. On the way out a thread that is wanted parks here, where no LH frame is below it.
template <class R, class... A>
__attribute__((always_inline)) inline R call_lower(void* const* const volatile* table, unsigned index,
                                                   A... args) {
  // Both bases by a load, a nanosecond or two cheaper than rdfsbase and rdgsbase: the record begins with its
  // own address, and %fs:0 holds the thread pointer in every x86-64 TLS layout (psABI, "Thread-Local
  // Storage").
  ThreadRecord* t;
  __asm__ volatile("mov %%gs:0, %0" : "=r"(t));
  t->pinned = t->pinned + 1;
  uint64_t upper;
  __asm__ volatile("mov %%fs:0, %0" : "=r"(upper));
  auto fn = reinterpret_cast<R (*)(A...)>((*table)[index]);
  const uint32_t selector = t->lower_selector;
  if (__builtin_expect(selector != 0 && t->upper_fs == upper, 1))
    load_fs(selector);
  else
    enter_slowly(t, upper);
  R r = fn(args...);
  use_upper_fs(t);
  t->pinned = t->pinned - 1;
  if (__builtin_expect(control()->attention != 0, 0)) control()->park();
  return r;
}

}  // namespace cropdl::seam
