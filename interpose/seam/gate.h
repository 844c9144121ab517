// The gate: calls from a shim in the upper half into the lower half. UH only; any UH thread; UH FS base
// before and after. No lock, no allocation, no system call.
#pragma once

#include "interpose/seam/thread.h"

namespace cropdl::seam {

// For a thread's first call, after a change of its FS base, or without a segment.
__attribute__((cold, noinline, optimize("no-stack-protector"))) inline void enter_slowly(ThreadRecord* t,
                                                                                         uint64_t upper) {
  if (t->lower_fs == 0 || t->upper_fs != upper) {
    t->upper_fs = upper;
    control()->lend_lower_fs(t);
  }
  use_lower_fs(t);
}

// Calls entry `index` of the table that `*table` (a field of the control page) points at, with the thread's
// LH FS base. The thread holds addresses of this run's LH only while it is pinned: a checkpoint would save an
// address that no later run has. After the call, a thread that must stop parks here, with no LH frame below.
template <class R, class... A>
__attribute__((always_inline)) inline R call_lower(void* const* const volatile* table, unsigned index,
                                                   A... args) {
  // Both bases are loads, 1 to 2 ns cheaper than rdfsbase and rdgsbase: the record begins with its own
  // address, and %fs:0 holds the thread pointer in every x86-64 TLS layout (psABI, "Thread-Local Storage").
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
