// Point-to-point communication: counted per world rank, interruptible, served from drained messages first.
// LH, LH FS base, threads of the program.
//
// A blocking send is the MPI's own: its receiver receives or drains the message, if need be before all its
// threads have stopped (message_drain.cpp). A blocking receive is MPI_Irecv and MPI_Test (measured: within 4
// ns of MPI_Recv): a thread can leave it, and its requests wait in the thread's `pending` for the next call.
#include "interpose/mpi/lower/counting.h"
#include "interpose/mpi/lower/messages.h"
#include "lower_functions.h"

namespace cropdl::mpi {

namespace {

// A blocking send by the MPI's function `kSend`.
template <int (*kSend)(const void*, int, MPI_Datatype, int, int, MPI_Comm)>
inline int blocking_send(const void* buffer, int count, Vid type, int dest, int tag, Vid comm) {
  uint64_t* counted = message_leaves({comm_record(comm), dest, tag});
  if (__builtin_expect(multiple, 0)) stand_sending(true);
  const int code = kSend(buffer, count, datatype(type), rank_in(dest), tag, mpi::comm(comm));
  if (__builtin_expect(multiple, 0)) stand_sending(false);
  if (__builtin_expect(code != MPI_SUCCESS, 0)) message_stays(counted);
  return error_out(code);
}

template <int (*kSend)(const void*, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request*)>
inline int nonblocking_send(uint32_t maker, const void* buffer, int count, Vid type, int dest, int tag,
                            Vid comm, Vid* request) {
  *request = kNullRequest;
  RequestPlace place;
  if (__builtin_expect(!place, 0)) return seam::kErrIntern;
  MPI_Request real = MPI_REQUEST_NULL;
  const int code = begin_to_send<kSend>(buffer, count, datatype(type), dest, tag, comm, &real);
  if (__builtin_expect(code != MPI_SUCCESS, 0)) return error_out(code);
  *request = place.take({kSendRequest, maker, buffer, count, type, dest, tag, comm}, real);
  return seam::kSuccess;
}

// A begun receive: a real request, or a drained message that has been delivered.
struct Posted {
  MPI_Request real = MPI_REQUEST_NULL;
  bool done = false;
  seam::Status status;  // if done
};

inline int post(void* buffer, int count, Vid type, int source, int tag, Vid comm, Posted* posted) {
  if (__builtin_expect(source == seam::kProcNull, 0)) {
    // MPICH 4.0 completes an MPI_Irecv from MPI_PROC_NULL with source 0 in its status.
    posted->done = true;
    posted->status = status_of_no_process();
    return MPI_SUCCESS;
  }
  // Messages that the program leaves there must cost the others little.
  if (__builtin_expect(state->drained != 0, 0) && probe_drained(comm, source, tag, nullptr)) {
    if (const int code = check_receive(buffer, count, type); code != MPI_SUCCESS) return code;
    if (DrainedMessage* m = take_drained(comm, source, tag)) {
      posted->done = true;
      posted->status = deliver_drained(m, buffer, count, type);
      return MPI_SUCCESS;
    }
  }
  return MPI_Irecv(buffer, count, datatype(type), rank_in(source), tag_in(tag), mpi::comm(comm),
                   &posted->real);
}

inline void note_received(Vid comm, const MPI_Status& s) {
  message_came({comm_record(comm), s.MPI_SOURCE, s.MPI_TAG});
}

// Leaves the LH within a blocking call, whose requests are now records. (Without free ones, it waits on.)
int leave_with(Vid first, Vid second) {
  seam::ThreadRecord* t = seam::current_thread();
  t->pending[0] = first;
  t->pending[1] = second;
  return seam::kAgain;
}

// Completes MPI_Sendrecv after both halves have begun. `owned` is a copy that the send reads.
int exchange(const RequestArguments& receive, Posted& posted, const RequestArguments& send,
             MPI_Request real_send, void* owned, seam::Status* status) {
  bool send_done = false;
  int send_code = MPI_SUCCESS, flag = 0;
  MPI_Status s = no_message();
  for (Spin spin;; spin.turn()) {
    if (!posted.done) {
      const int code = test_or_wait(&posted.real, &flag, &s);
      if (flag || code != MPI_SUCCESS) {
        note_received(receive.comm, s);
        status_out(s, &posted.status);
        posted.status.error = error_out(code);
        posted.done = true;
      }
    }
    if (!send_done) {
      send_code = test_or_wait(&real_send, &flag, MPI_STATUS_IGNORE);
      send_done = flag || send_code != MPI_SUCCESS;
      if (__builtin_expect(send_code != MPI_SUCCESS, 0))
        message_stays({comm_record(send.comm), send.peer, send.tag});
    }
    if (posted.done && send_done) break;
    if (stop_wanted()) {
      RequestPlace for_receive(RequestPlace::kQuietly), for_send(RequestPlace::kQuietly);
      if (!for_receive || !for_send) continue;
      const Vid r = for_receive.take(receive, posted.real);
      if (posted.done) finish_request_with(request_record(r), posted.status);
      const Vid w = for_send.take(send, real_send);
      request_record(w)->owned = reinterpret_cast<uint64_t>(owned);
      if (send_done) finish_request_with(request_record(w), empty_status(error_out(send_code)));
      return leave_with(r, w);
    }
  }
  handles::heap_free(owned);
  if (status) *status = posted.status;
  return posted.status.error != seam::kSuccess ? posted.status.error : error_out(send_code);
}

// Begins the send of an exchange whose receive is posted; cancels the receive if that fails.
int begin_send(const void* buffer, int count, MPI_Datatype type, int dest, int tag, Vid comm, Posted& posted,
               MPI_Request* real) {
  const int code = begin_to_send(buffer, count, type, dest, tag, comm, real);
  if (code != MPI_SUCCESS && !posted.done) {
    MPI_Status s = no_message();
    int cancelled = 0;
    MPI_Cancel(&posted.real);
    MPI_Wait(&posted.real, &s);
    MPI_Test_cancelled(&s, &cancelled);
    if (!cancelled) note_received(comm, s);
  }
  return code;
}

}  // namespace

int continue_pending(seam::Status* status) {
  seam::ThreadRecord* t = seam::current_thread();
  for (Vid v : {t->pending[0], t->pending[1]}) {
    if (!v) continue;
    for (Spin spin; !test_request(v, request_record(v), true); spin.turn())
      if (stop_wanted()) return seam::kAgain;
  }
  int result = seam::kSuccess;
  Vid receive = t->pending[0], send = t->pending[1];
  t->pending[0] = t->pending[1] = 0;
  if (receive) result = hand_out_request(&receive, request_record(receive), status);
  if (send) {
    const int error = hand_out_request(&send, request_record(send), nullptr);
    if (result == seam::kSuccess) result = error;
  }
  return result;
}

extern "C" {

// Ready sends are sent as standard ones, as MPI permits: after a cut, their receives may not be posted yet.
int lower_MPI_Send(const void* buffer, int count, Vid type, int dest, int tag, Vid comm) {
  return blocking_send<MPI_Send>(buffer, count, type, dest, tag, comm);
}
int lower_MPI_Rsend(const void* buffer, int count, Vid type, int dest, int tag, Vid comm) {
  return blocking_send<MPI_Send>(buffer, count, type, dest, tag, comm);
}
int lower_MPI_Isend(const void* buffer, int count, Vid type, int dest, int tag, Vid comm, Vid* request) {
  return nonblocking_send<MPI_Isend>(seam::kFn_MPI_Isend, buffer, count, type, dest, tag, comm, request);
}
int lower_MPI_Irsend(const void* buffer, int count, Vid type, int dest, int tag, Vid comm, Vid* request) {
  return nonblocking_send<MPI_Isend>(seam::kFn_MPI_Irsend, buffer, count, type, dest, tag, comm, request);
}

// An MPI_Issend completes when its receive has begun, and the program may rely on that (nothing is under way
// after a barrier). While one is pending, no cut is made; held like a collective, none begins after that
// check.
int lower_MPI_Issend(const void* buffer, int count, Vid type, int dest, int tag, Vid comm, Vid* request) {
  if (!begin_alone(seam::kFn_MPI_Issend)) return seam::kAgain;
  synchronous_sends.store(true, std::memory_order_relaxed);
  const int result =
      nonblocking_send<MPI_Issend>(seam::kFn_MPI_Issend, buffer, count, type, dest, tag, comm, request);
  end_collective();
  return result;
}

// Returns when its receive has begun; a drain is no such receive. So no cut is made meanwhile, as for a
// collective, although the receiver takes no part.
int lower_MPI_Ssend(const void* buffer, int count, Vid type, int dest, int tag, Vid comm) {
  if (!begin_alone(seam::kFn_MPI_Ssend)) return seam::kAgain;
  const int result = blocking_send<MPI_Ssend>(buffer, count, type, dest, tag, comm);
  end_collective();
  return result;
}

int lower_MPI_Recv(void* buffer, int count, Vid type, int source, int tag, Vid comm, seam::Status* status) {
  if (continues()) return continue_pending(status);
  Posted posted;
  const int begun = post(buffer, count, type, source, tag, comm, &posted);
  if (__builtin_expect(begun != MPI_SUCCESS, 0)) return error_out(begun);
  if (__builtin_expect(posted.done, 0)) {
    if (status) *status = posted.status;
    return posted.status.error;
  }
  MPI_Status s = no_message();
  int flag = 0;
  for (Spin spin;; spin.turn()) {
    const int code = test_or_wait(&posted.real, &flag, &s);
    if (flag || __builtin_expect(code != MPI_SUCCESS, 0)) {
      note_received(comm, s);
      status_out(s, status);
      if (status) status->error = error_out(code);
      return error_out(code);
    }
    if (stop_wanted()) {
      RequestPlace place(RequestPlace::kQuietly);
      if (!place) continue;
      return leave_with(
          place.take({kReceiveRequest, seam::kFn_MPI_Recv, buffer, count, type, source, tag, comm},
                     posted.real),
          0);
    }
  }
}

int lower_MPI_Irecv(void* buffer, int count, Vid type, int source, int tag, Vid comm, Vid* request) {
  *request = kNullRequest;
  RequestPlace place;
  if (__builtin_expect(!place, 0)) return seam::kErrIntern;
  Posted posted;
  const int code = post(buffer, count, type, source, tag, comm, &posted);
  if (__builtin_expect(code != MPI_SUCCESS, 0)) return error_out(code);
  *request =
      place.take({kReceiveRequest, seam::kFn_MPI_Irecv, buffer, count, type, source, tag, comm}, posted.real);
  if (__builtin_expect(posted.done, 0)) finish_request_with(request_record(*request), posted.status);
  return seam::kSuccess;
}

int lower_MPI_Sendrecv(const void* send, int send_count, Vid send_type, int dest, int send_tag, void* receive,
                       int receive_count, Vid receive_type, int source, int receive_tag, Vid comm,
                       seam::Status* status) {
  if (continues()) return continue_pending(status);
  Posted posted;
  int code = post(receive, receive_count, receive_type, source, receive_tag, comm, &posted);
  if (code != MPI_SUCCESS) return error_out(code);
  MPI_Request real = MPI_REQUEST_NULL;
  code = begin_send(send, send_count, datatype(send_type), dest, send_tag, comm, posted, &real);
  if (code != MPI_SUCCESS) return error_out(code);
  return exchange({kReceiveRequest, seam::kFn_MPI_Sendrecv, receive, receive_count, receive_type, source,
                   receive_tag, comm},
                  posted,
                  {kSendRequest, seam::kFn_MPI_Sendrecv, send, send_count, send_type, dest, send_tag, comm},
                  real, nullptr, status);
}

int lower_MPI_Sendrecv_replace(void* buffer, int count, Vid type, int dest, int send_tag, int source,
                               int receive_tag, Vid comm, seam::Status* status) {
  if (continues()) return continue_pending(status);
  void* copy = nullptr;
  int bytes = 0;
  int code = pack(buffer, count, type, comm, &copy, &bytes);
  if (code != MPI_SUCCESS) return error_out(code);
  Posted posted;
  code = post(buffer, count, type, source, receive_tag, comm, &posted);
  MPI_Request real = MPI_REQUEST_NULL;
  if (code == MPI_SUCCESS) code = begin_send(copy, bytes, MPI_PACKED, dest, send_tag, comm, posted, &real);
  if (code != MPI_SUCCESS) {
    handles::heap_free(copy);
    return error_out(code);
  }
  return exchange(
      {kReceiveRequest, seam::kFn_MPI_Sendrecv_replace, buffer, count, type, source, receive_tag, comm},
      posted,
      {kSendRequest, seam::kFn_MPI_Sendrecv_replace, copy, bytes, seam::kVid_MPI_PACKED, dest, send_tag,
       comm},
      real, copy, status);
}

int lower_MPI_Iprobe(int source, int tag, Vid comm, int* flag, seam::Status* status) {
  if (__builtin_expect(state->drained != 0, 0) && probe_drained(comm, source, tag, status)) {
    *flag = 1;
    return seam::kSuccess;
  }
  MPI_Status s = no_message();
  const int code = MPI_Iprobe(rank_in(source), tag_in(tag), mpi::comm(comm), flag, &s);
  if (code == MPI_SUCCESS && *flag) status_out(s, status);
  return error_out(code);
}

int lower_MPI_Probe(int source, int tag, Vid comm, seam::Status* status) {
  for (Spin spin;; spin.turn()) {
    int flag = 0;
    const int result = lower_MPI_Iprobe(source, tag, comm, &flag, status);
    if (flag || result != seam::kSuccess) return result;
    if (stop_wanted()) return seam::kAgain;
  }
}

}  // extern "C"

}  // namespace cropdl::mpi
