// The gate from a shim in the upper half into a function of the lower half. UH only; any UH thread; UH FS
// base before and after. No lock, no allocation, no system call.
#pragma once

#include "interpose/seam/thread.h"

namespace cropdl::seam {

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
  if (__builtin_expect(t->lower_fs == 0, 0)) control()->lend_lower_fs(t);
  uint64_t upper;
  __asm__ volatile("mov %%fs:0, %0" : "=r"(upper));
  t->upper_fs = upper;
  auto fn = reinterpret_cast<R (*)(A...)>((*table)[index]);
  set_fs_base(t->lower_fs);
  R r = fn(args...);
  set_fs_base(upper);
  t->pinned = t->pinned - 1;
  if (__builtin_expect(control()->attention != 0, 0)) control()->park();
  return r;
}

}  // namespace cropdl::seam
