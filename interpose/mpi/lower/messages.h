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

// A send by `kSend` that returns a request. Returns a code of the MPI.
template <int (*kSend)(const void*, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request*) = MPI_Isend>
inline int begin_to_send(const void* buffer, int count, MPI_Datatype type, int dest, int tag, Vid comm,
                         MPI_Request* real) {
  uint64_t* counted = message_leaves({comm_record(comm), dest, tag});
  const int code = kSend(buffer, count, type, rank_in(dest), tag, cropdl::mpi::comm(comm), real);
  if (__builtin_expect(code != MPI_SUCCESS, 0)) message_stays(counted);
  return code;
}

// --- point_to_point.cpp. A call that left the LH for a cut goes on, perhaps in a later process:
// continue_pending waits for its receive and send.
int continue_pending(seam::Status* status);
inline bool continues() {
  const seam::ThreadRecord* t = seam::current_thread();
  return __builtin_expect((t->pending[0] | t->pending[1]) != 0, 0);
}

// --- buffered_sends.cpp. Packs a message into the heap, at most INT_MAX bytes: MPI_Pack_size and MPI_Pack
// count in int, and beyond that the result depends on the MPI. Returns a code of the MPI.
int pack(const void* buffer, int count, Vid type, Vid comm, void** copy, int* bytes);

// --- drained_messages.cpp. The MPI's error if the receive may not begin; it then takes no drained message.
int check_receive(void* buffer, int count, Vid datatype);

}  // namespace cropdl::mpi
