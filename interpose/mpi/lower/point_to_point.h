// What the files of point-to-point communication share. LH, LH FS base, threads of the program.
#pragma once

#include "interpose/mpi/lower/messages.h"

namespace cropdl::mpi {

inline Message message_to(int dest, int tag, Vid comm) { return {comm_record(comm), dest, tag}; }

// A send by `kSend` that returns a request. Returns a code of the MPI.
template <int (*kSend)(const void*, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request*) = MPI_Isend>
inline int begin_to_send(const void* buffer, int count, MPI_Datatype type, int dest, int tag, Vid comm,
                         MPI_Request* real) {
  uint64_t* counted = message_leaves(message_to(dest, tag, comm));
  const int code = kSend(buffer, count, type, rank_in(dest), tag, cropdl::mpi::comm(comm), real);
  if (__builtin_expect(code != MPI_SUCCESS, 0)) message_stays(counted);
  return code;
}

// Continues the call that leave_with left, perhaps in a later process: waits for its receive and send.
int continue_pending(seam::Status* status);

inline bool continues() {
  const seam::ThreadRecord* t = seam::current_thread();
  return __builtin_expect((t->pending[0] | t->pending[1]) != 0, 0);
}

// --- buffered_sends.cpp
// Packs a message into the heap, at most INT_MAX bytes: MPI_Pack_size and MPI_Pack count in int, and beyond
// that the result depends on the MPI.
int pack(const void* buffer, int count, Vid type, Vid comm, void** copy, int* bytes);

// The MPI's error if the receive may not begin; it then takes no drained message. A code of the MPI.
int check_receive(void* buffer, int count, Vid datatype);  // drained_messages.cpp

}  // namespace cropdl::mpi
