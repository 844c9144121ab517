// The gate from a shim in the upper half into a function of the lower half. UH only; any UH thread; UH FS base
// before and after. No lock, no allocation, no system call.
#pragma once

#include "interpose/seam/thread.h"

namespace cropdl::seam {

// Calls entry `index` of `table` with FS switched to the thread's LH base. On the way out a thread that is
// wanted (a checkpoint is on its way) parks here, at a point where no LH frame is below it.
template <class R, class... A>
__attribute__((always_inline)) inline R call_lower(void* const* table, unsigned index, A... args) {
  ThreadRecord* t = current_thread();
  if (__builtin_expect(t->lower_fs == 0, 0)) control()->lend_lower_fs(t);
  auto fn = reinterpret_cast<R (*)(A...)>(table[index]);
  const uint64_t upper = fs_base();
  t->upper_fs = upper;
  set_fs_base(t->lower_fs);
  R r = fn(args...);
  set_fs_base(upper);
  if (__builtin_expect(control()->attention != 0, 0)) control()->park();
  return r;
}

}  // namespace cropdl::seam
