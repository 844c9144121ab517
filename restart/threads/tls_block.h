// Segments for the gate. The C library keeps what FS points at, a thread block (TCB and TLS), where it likes;
// one below 4 GiB can be the base of a segment in the process's local descriptor table, and loading that
// segment's selector takes a third of a `wrfsbase`. The LH's blocks are put there; the core sees to it for
// the program's main thread. Where the kernel has no modify_ldt(2), or memory there is taken, the gate uses
// `wrfsbase`.
#pragma once

#include <cstddef>
#include <cstdint>

#include "interpose/seam/layout.h"
#include "interpose/upper/raw.h"

namespace cropdl::program_threads {

// Starts a detached thread with all signals blocked, on the C library's stack or this one. Returns
// pthread_create's error. LH.
int start_thread(void* (*run)(void*), void* argument, void* stack = nullptr, size_t size = 0);

// Likewise one that lends its block, which lies below 4 GiB if there is room. One thread at a time.
int start_lender(void* (*run)(void*), void* argument);

// Called by such a thread, which never runs again: the thread id that the C library keeps in the block
// becomes that of the kernel's thread `borrower`, and the kernel stops writing to the block. Returns where
// that id is; null if it was not found (a kernel without PR_GET_TID_ADDRESS): pthread_self() will mean this
// thread then.
int32_t* lend_block_to(int32_t borrower);

// The kernel lets go of the calling thread's area of restartable sequences (man 2 rseq), which is in its
// block: a thread has one at most, and the block, or the thread, will be another's. sched_getcpu() asks the
// vDSO from then on.
void let_go_of_rseq();

// What such a thread ends with. Its stack and its block may be another's already, so it calls nothing: even
// pause(), when it is first called, has ld.so find it, on that stack.
[[noreturn]] __attribute__((always_inline)) inline void rest_for_ever() {
  for (;;) upper::raw(34 /* pause */);
}

// Makes the record's selectors true of its FS bases: 0 where there can be no segment. LH code on any thread
// with any FS base: uses no libc, no TLS.
void make_segments(seam::ThreadRecord* thread);

// For a program that needs all addresses below 4 GiB. Before everything else here.
void leave_low_memory_alone();

// The main thread goes on with a block below 4 GiB; the one that ld.so gave it stays unused. LH, while there
// is no other thread.
void continue_on_low_tls_block();

}  // namespace cropdl::program_threads
