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
inline void load_fs(uint32_t selector) { __asm__ volatile("mov %0, %%fs" ::"r"(selector) : "memory"); }

// By a segment register where there is a segment: a third of a wrfsbase where it was measured (4 ns against
// 12, Zen 4).
inline void switch_fs(uint32_t selector, uint64_t base) {
  if (selector != 0)
    load_fs(selector);
  else
    set_fs_base(base);
}
inline void use_lower_fs(const ThreadRecord* t) { switch_fs(t->lower_selector, t->lower_fs); }
inline void use_upper_fs(const ThreadRecord* t) { switch_fs(t->upper_selector, t->upper_fs); }
inline uint64_t gs_base() {
  uint64_t v;
  __asm__ volatile("rdgsbase %0" : "=r"(v)::"memory");
  return v;
}
inline void set_gs_base(uint64_t v) { __asm__ volatile("wrgsbase %0" ::"r"(v) : "memory"); }

// The calling UH thread's record. Not for threads of the LH, whose GS base is 0 (quiet_threads.cpp).
inline ThreadRecord* current_thread() { return reinterpret_cast<ThreadRecord*>(gs_base()); }

// Of a shim's function: its return address. UH.
inline void note_caller(void* caller) {
  __asm__ volatile("movq %0, %%gs:%c1" ::"r"(caller), "i"(offsetof(ThreadRecord, caller)));
}

// Calls fn(first, second) on another stack with another FS base, and comes back. What it needs of the caller
// it keeps in registers: a thread is not saved meanwhile, or never comes back.
__attribute__((naked, noinline)) inline void call_on_stack(void* /*fn*/, void* /*first*/, long /*second*/,
                                                           uint64_t /*fs*/, uint64_t /*stack*/) {
  __asm__(R"(
    push %rbp
    push %rbx
    mov %rsp, %rbp
    rdfsbase %rbx
    mov %r8, %rsp
    wrfsbase %rcx
    mov %rdi, %rax
    mov %rsi, %rdi
    mov %rdx, %rsi
    call *%rax
    wrfsbase %rbx
    mov %rbp, %rsp
    pop %rbx
    pop %rbp
    ret)");
}

// Runs `fn(args...)`, a function of the program, with the thread's UH FS base. Called in the LH (FS base ==
// lower_fs) on a UH thread; no checkpoint is taken before it returns: the gate pinned the thread.
// noinline and no stack protector: the compiler must not read TLS across the switch.
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
