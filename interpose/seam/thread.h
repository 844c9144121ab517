// FS and GS base of the calling thread, and calls from the lower half up into the program. Either half, any
// thread, any FS base; no libc, no TLS.
#pragma once

#include "interpose/seam/layout.h"

namespace cropdl::seam {

// By arch_prctl(2); on any processor, without the control page. A kernel that does not let programs write
// their bases forgets such a write at the next thread switch (process_64.c, save_base_legacy).
namespace by_kernel {
inline long arch_prctl(long what, uint64_t argument) {
  constexpr long kNumber = 158;
  long result;
  __asm__ volatile("syscall"
                   : "=a"(result)
                   : "0"(kNumber), "D"(what), "S"(argument)
                   : "rcx", "r11", "memory");
  return result;
}
inline uint64_t base(long which) {
  uint64_t v = 0;
  arch_prctl(which, reinterpret_cast<uint64_t>(&v));
  return v;
}
inline uint64_t fs_base() { return base(0x1003 /* ARCH_GET_FS */); }
inline uint64_t gs_base() { return base(0x1004 /* ARCH_GET_GS */); }
inline void set_fs_base(uint64_t v) { arch_prctl(0x1002 /* ARCH_SET_FS */, v); }
inline void set_gs_base(uint64_t v) { arch_prctl(0x1001 /* ARCH_SET_GS */, v); }
}  // namespace by_kernel

// The functions below need the control page: it says whether programs may use the FSGSBASE instructions.
inline bool has_fsgsbase() { return control()->has_fsgsbase != 0; }

inline uint64_t fs_base() {
  if (!has_fsgsbase()) return by_kernel::fs_base();
  uint64_t v;
  __asm__ volatile("rdfsbase %0" : "=r"(v)::"memory");
  return v;
}
inline void set_fs_base(uint64_t v) {
  if (!has_fsgsbase()) return by_kernel::set_fs_base(v);
  __asm__ volatile("wrfsbase %0" ::"r"(v) : "memory");
}
inline void load_fs(uint32_t selector) { __asm__ volatile("mov %0, %%fs" ::"r"(selector) : "memory"); }

// Loads the segment register if the block has a segment: 4 ns, against 12 ns for wrfsbase (on Zen 4).
inline void switch_fs(uint32_t selector, uint64_t base) {
  if (selector != 0)
    load_fs(selector);
  else
    set_fs_base(base);
}
inline void use_lower_fs(const ThreadRecord* t) { switch_fs(t->lower_selector, t->lower_fs); }
inline void use_upper_fs(const ThreadRecord* t) { switch_fs(t->upper_selector, t->upper_fs); }
inline uint64_t gs_base() {
  if (!has_fsgsbase()) return by_kernel::gs_base();
  uint64_t v;
  __asm__ volatile("rdgsbase %0" : "=r"(v)::"memory");
  return v;
}

// The record of the calling UH thread; it begins with its address. Threads of the LH have GS base 0.
inline ThreadRecord* current_thread() {
  ThreadRecord* t;
  __asm__ volatile("mov %%gs:0, %0" : "=r"(t));
  return t;
}

// Records the frame of a shim's function, __builtin_frame_address(0): the LH finds there who called. UH.
inline void note_caller(void* frame) {
  __asm__ volatile("movq %0, %%gs:%c1" ::"r"(frame), "i"(offsetof(ThreadRecord, caller)));
}

__attribute__((naked, noinline)) inline void call_on_other_stack(void* /*fn*/, void* /*first*/,
                                                                 long /*second*/, uint64_t /*stack*/) {
  __asm__(R"(
    push %rbp
    mov %rsp, %rbp
    mov %rcx, %rsp
    mov %rdi, %rax
    mov %rsi, %rdi
    mov %rdx, %rsi
    call *%rax
    mov %rbp, %rsp
    pop %rbp
    ret)");
}

// Calls fn(first, second) on another stack with another FS base. The thread is not saved during the call, or
// its saved copy never returns from it.
__attribute__((noinline, optimize("no-stack-protector"))) inline void call_on_stack(void* fn, void* first,
                                                                                    long second, uint64_t fs,
                                                                                    uint64_t stack) {
  const uint64_t own = fs_base();
  set_fs_base(fs);
  call_on_other_stack(fn, first, second, stack);
  set_fs_base(own);
}

// Calls `fn(args...)`, a function of the program, with the thread's UH FS base. LH (FS base == lower_fs), on
// a UH thread. No checkpoint is taken before it returns: the gate has pinned the thread.
// noinline, no stack protector: the compiler must not read TLS across the switch.
template <class R, class... A>
__attribute__((noinline, optimize("no-stack-protector"))) R call_upper(R (*fn)(A...), A... args) {
  ThreadRecord* t = current_thread();
  use_upper_fs(t);
  if constexpr (__is_same(R, void)) {
    fn(args...);
    use_lower_fs(t);
  } else {
    R r = fn(args...);
    use_lower_fs(t);
    return r;
  }
}

}  // namespace cropdl::seam
