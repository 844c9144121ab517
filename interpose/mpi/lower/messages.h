// Every point-to-point message of the program passes here twice: when its send begins, and when it has been
// received (by the program or a drain). All bookkeeping of messages belongs here; today, the counts by which
// a drain ends and the agent sees progress.
//
// Inline in every call's path: no lock, allocation or system call. LH, LH FS base, any thread of the program.
#pragma once

#include "interpose/mpi/lower/state.h"

namespace cropdl::mpi {

struct Message {
  CommRecord* comm;  // nullptr: its messages are not counted
  int peer;          // rank in the communicator; a send's may be kProcNull or invalid
  int tag;
};

// Messages between this rank and the peer over all communicators; a dummy counter if they are not counted.
inline uint64_t* message_counter(uint64_t base, const Message& m) {
  const CommRecord* c = m.comm;
  if (__builtin_expect(!c || !c->members || static_cast<uint32_t>(m.peer) >= c->size, 0)) return &uncounted;
  return reinterpret_cast<uint64_t*>(base) + c->ranks()[static_cast<uint32_t>(m.peer)];
}

// After the calls below, the counter numbers the message, from 1, between its sender and its receiver.

// Counts a send before it begins: a rank may block in it until its receiver's drain takes the message.
// Returns the counter for message_stays, which is cheaper to keep over the call than the message.
inline uint64_t* message_leaves(const Message& m) {
  uint64_t* counter = message_counter(state->sent, m);
  add_to_counter(counter, 1);
  return counter;
}
// The send failed, or MPI_Cancel cancelled it.
inline void message_stays(uint64_t* counter) { add_to_counter(counter, ~uint64_t{0}); }
inline void message_stays(const Message& m) { message_stays(message_counter(state->sent, m)); }
// The whole message has been received.
inline void message_came(const Message& m) { add_to_counter(message_counter(state->received, m), 1); }

}  // namespace cropdl::mpi
