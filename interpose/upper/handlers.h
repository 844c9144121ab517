// What the core's signal handlers share. A file each: handlers.cpp, the core's own signals;
// program_handlers.cpp, how the program's handlers are entered and left; interrupted_calls.cpp, what an
// interruption means for a call of the core. UH, in a handler.
#pragma once

#include "interpose/upper/core.h"

namespace cropdl::upper {

struct Entry {  // as entry.S lays it out: the handler's arguments
  long sig;
  siginfo_t* info;
  ucontext_t* context;
  uint64_t frame;     // stack pointer; the address of the restorer is there
  uint64_t handler;   // the code to jump to
  uint64_t argument;  // its rcx
};

constexpr uint16_t kSyscall = 0x050f;  // the instruction

// Changes the interrupted context such that it can be saved, or never be returned to.
void settle(seam::ThreadRecord* t, ucontext_t* context);
// The same after an interruption by a signal of the core.
void settle_for_core(seam::ThreadRecord* t, ucontext_t* context);

// Ends a call that a core's signal has put back to its instruction, as a handler without SA_RESTART does.
void end_rewound_call(seam::ThreadRecord* t, const seam::SignalAction& action, greg_t* g);

// Returns the thread's mask when the signal arrived. If the signal ended a wait with a temporary mask
// (masked_wait), the frame has the mask from before the wait. The next signal finds the wait over.
uint64_t mask_before(seam::ThreadRecord* t, int sig, const ucontext_t* context);

void do_nothing(Entry* e);

// LH threads have GS base 0 and block signals. One that arrives is for the main thread, or a fault of the LH.
void on_lower_thread(const Entry* e);

// Enters the program's handler for an arrived signal, if there is one. All signals, the suspend signal too,
// are blocked until this is done: a stopped thread holds no untranslated id of this run (tell_sender), and no
// other handler sees a half-done state. The next pending signal is delivered when the mask is set.
void enter_handler(Entry* e);

// Handles a signal number of the core that the program uses itself, sent by kill() and its kin.
void programs_own(Entry* e);

// rt_sigreturn of the program. The program may have changed the mask and the signal stack in the frame at the
// stack pointer (a coroutine library returns into another context).
void return_from_handler(greg_t* g);

}  // namespace cropdl::upper
