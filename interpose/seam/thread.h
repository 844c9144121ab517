// FS and GS base of the calling thread, and calls from the lower half up into the program.
// Either half, any thread. Needs FSGSBASE (checked at start-up through AT_HWCAP2, see arch/x86 elf.h).
#pragma once

#include "interpose/seam/layout.h"

namespace cropdl::seam {

inline uint64_t fs_base() {
  uint64_t v;
  __asm__ volatile("rdfsbase %0" : "=r"(v)::"memory");
  return v;
}
inline void set_fs_base(uint64_t v) { __asm__ volatile("wrfsbase %0" ::"r"(v) : "memory"); }
inline uint64_t gs_base() {
  uint64_t v;
  __asm__ volatile("rdgsbase %0" : "=r"(v)::"memory");
  return v;
}
inline void set_gs_base(uint64_t v) { __asm__ volatile("wrgsbase %0" ::"r"(v) : "memory"); }

// The calling UH thread's record. Not for threads of the LH: they inherit a GS base that is not theirs.
inline ThreadRecord* current_thread() { return reinterpret_cast<ThreadRecord*>(gs_base()); }

// Runs `fn(args...)`, a function of the program, with the thread's UH FS base. Called in the LH (FS base ==
// lower_fs) on a UH thread; no checkpoint is taken before it returns: the gate pinned the thread.
// noinline and no stack protector: the compiler must not read TLS across the switch.
template <class R, class... A>
__attribute__((noinline, optimize("no-stack-protector"))) R call_upper(R (*fn)(A...), A... args) {
  ThreadRecord* t = current_thread();
  set_fs_base(t->upper_fs);
  if constexpr (__is_same(R, void)) {
    fn(args...);
    set_fs_base(t->lower_fs);
  } else {
    R r = fn(args...);
    set_fs_base(t->lower_fs);
    return r;
  }
}

}  // namespace cropdl::seam
