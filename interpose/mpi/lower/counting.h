// Counts MPI's collectives for the cut (interpose/counting), by communicator or as subgroup calls. LH, LH FS
// base, a thread of the program.
#pragma once

#include "interpose/boundaries/token_ring.h"
#include "interpose/counting/counting.h"
#include "interpose/mpi/lower/state.h"

namespace cropdl::mpi {

// How long (us) an agreement waits for one pending synchronous send: longer than most programs compute
// between a send and its wait, short beside the bound of an attempt. Tests change it.
inline int64_t patience_with_synchronous_sends = 500'000;

// Marks this thread as inside a blocking send, if several threads may call MPI: when all others have parked,
// messages are drained for it. Not below a callback of an MPI call (pinned more than once), where it would
// not park.
inline void stand_sending(bool yes) {
  seam::ThreadRecord* t = seam::current_thread();
  if (yes) note_modes(&modes_of_sender);
  t->sending = yes && t->pinned == 1 ? 1 : 0;
  std::atomic_signal_fence(std::memory_order_seq_cst);
}

// Counts a collective as begun on `comm` and notes its token. Returns false while ranks agree on a cut: then
// call begin_held. `function`, `what`: as in boundaries::note.
__attribute__((always_inline)) inline bool begin_unheld(Vid comm, unsigned function, uint64_t what) {
  const uint64_t call = boundaries::call_of(seam::kLibraryMpi, function);
  CommRecord* c = comm_record(comm);
  if (__builtin_expect(!c || !c->count.identity, 0)) {
    boundaries::note(call, what, 0, 0, multiple);
    return true;
  }
  if (__builtin_expect(!counting::begin_unheld(&c->count, multiple), 0)) return false;
  boundaries::note(call, what, c->count.identity, c->count.begun, multiple);
  return true;
}
// Call after begin_unheld returned false. Blocks while the collective is held. Returns false, with nothing
// counted, if the thread must leave the LH with kAgain.
inline bool begin_held(Vid comm, unsigned function, uint64_t what) {
  const counting::Record& count = comm_record(comm)->count;
  if (!counting::begin_held(&comm_record(comm)->count)) return false;
  boundaries::note(boundaries::call_of(seam::kLibraryMpi, function), what, count.identity, count.begun,
                   multiple);
  return true;
}

// Both steps, for calls that make objects. Each true requires one end_collective.
inline bool begin_collective(Vid comm, unsigned function) {
  function |= boundaries::kMakesObjects;
  return begin_unheld(comm, function, 0) || begin_held(comm, function, 0);
}
inline void end_collective() { counting::end(); }

using counting::begin_meeting;  // end it with end_collective
// Counts on `comm`, over which the call is collective; as a subgroup call if `comm` is not counted.
inline bool begin_collective_or_meeting(Vid comm, unsigned function) {
  const CommRecord* c = comm_record(comm);
  return c && c->count.identity ? begin_collective(comm, function) : begin_meeting(function);
}

// Begins a call that this thread makes alone and during which no cut may be made. Its identity consists of
// the function, the thread (thread records differ in these bits) and the rank.
inline bool begin_alone(uint32_t function) {
  return begin_meeting(static_cast<uint64_t>(function) << 52 | (seam::gs_base() & 0xff'ffff) << 28 |
                       static_cast<uint32_t>(state->rank));
}

}  // namespace cropdl::mpi
