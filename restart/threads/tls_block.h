// TLS blocks and segments for the gate. FS points at a TLS block (TCB and TLS), which the C library allocates
// anywhere. One below 4 GiB can be the base of a segment in the process's local descriptor table; loading its
// selector takes a third of the time of `wrfsbase`. The LH's blocks are placed there, and by the core that of
// the program's main thread. Without modify_ldt(2), or room below 4 GiB, the gate uses `wrfsbase`.
#pragma once

#include <cstddef>
#include <cstdint>

#include "interpose/seam/layout.h"
#include "interpose/upper/raw.h"

namespace cropdl::program_threads {

// Starts a detached thread, all signals blocked, on `stack` or the C library's. Returns an errno value. LH.
int start_thread(void* (*run)(void*), void* argument, void* stack = nullptr, size_t size = 0);

// Likewise starts a thread that lends its TLS block, which is below 4 GiB if there is room. Not thread-safe.
int start_lender(void* (*run)(void*), void* argument);

// Called by a lending thread, which never runs its own code again. Sets the C library's thread id in the
// block to the kernel's thread `borrower`; the kernel stops writing to the block. Returns the id's address;
// null if it was not found (no PR_GET_TID_ADDRESS): then pthread_self() means the lending thread.
int32_t* lend_block_to(int32_t borrower);

// Unregisters the calling thread's area of restartable sequences (man 2 rseq) in its TLS block: a thread has
// at most one; another will use the block, or the program the thread. Then sched_getcpu() asks the vDSO.
void let_go_of_rseq();

// The end of a lending thread. Another thread may already use its stack and block, so it calls no function:
// even the first call of pause() makes ld.so resolve it on that stack.
[[noreturn]] __attribute__((always_inline)) inline void rest_for_ever() {
  for (;;) upper::raw(34 /* pause */);
}

// Sets the record's selectors for its FS bases; 0: no segment. Any thread, any FS base; no libc, no TLS.
void make_segments(seam::ThreadRecord* thread);

void leave_low_memory_alone();  // for a program that needs all addresses below 4 GiB. Call it first

// Moves the main thread to a TLS block below 4 GiB; ld.so's stays unused. LH, before there is another thread.
void continue_on_low_tls_block();

}  // namespace cropdl::program_threads
