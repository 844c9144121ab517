// The one place that every point-to-point message of the program passes, twice: where its send begins, and
// where it has been received (by the program, or by a drain). Whatever wants to know of messages hangs here:
// today the counts by which a cut is drained and by which the agent sees progress.
//
// Inline, in every call's path: no lock, no memory, no system call. LH, LH FS base, any thread of the
// program.
#pragma once

#include "interpose/mpi/lower/state.h"

namespace cropdl::mpi {

struct Message {
  CommRecord* comm;  // nullptr: one that messages are not counted of
  int peer;          // its rank in the communicator; of a send also kProcNull or no rank at all
  int tag;
};

// How many messages have passed between this rank and the peer, over all communicators; a dummy where they
// are not counted.
inline uint64_t* message_counter(uint64_t base, const Message& m) {
  const CommRecord* c = m.comm;
  if (__builtin_expect(!c || !c->members || static_cast<uint32_t>(m.peer) >= c->size, 0)) return &uncounted;
  return reinterpret_cast<uint64_t*>(base) + c->world_rank(m.peer);
}

// A message's number among those from its sender to its receiver, from 1, is the counter's value behind
// these.

// Its send is about to begin: before that, since a rank that is blocked in it must be waited for by its
// receiver's drain. Returns the counter, by which message_stays takes it back: less to keep over the call.
inline uint64_t* message_leaves(const Message& m) {
  uint64_t* counter = message_counter(state->sent, m);
  add_to_counter(counter, 1);
  return counter;
}
// The send failed, or was taken back by MPI_Cancel.
inline void message_stays(uint64_t* counter) { add_to_counter(counter, ~uint64_t{0}); }
inline void message_stays(const Message& m) { message_stays(message_counter(state->sent, m)); }
// All of it is here.
inline void message_came(const Message& m) { add_to_counter(message_counter(state->received, m), 1); }

}  // namespace cropdl::mpi
