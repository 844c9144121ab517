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

// A receive or send that a call has begun and waits for itself.
struct Begun {
  RequestArguments arguments;
  MPI_Request real = MPI_REQUEST_NULL;
  bool done = false;  // also if a drained message has been delivered
  seam::Status status = {};
};

__attribute__((always_inline)) inline int post(Begun* receive) {
  const RequestArguments& o = receive->arguments;
  if (__builtin_expect(o.peer == seam::kProcNull, 0)) {
    // MPICH 4.0 completes an MPI_Irecv from MPI_PROC_NULL with source 0 in its status.
    receive->done = true;
    receive->status = status_of_no_process();
    return MPI_SUCCESS;
  }
  void* const buffer = const_cast<void*>(o.buffer);
  // Messages that the program leaves there must cost the others little.
  if (__builtin_expect(state->drained != 0, 0) && probe_drained(o.comm, o.peer, o.tag, nullptr)) {
    if (const int code = check_receive(buffer, o.count, o.datatype); code != MPI_SUCCESS) return code;
    if (DrainedMessage* m = take_drained(o.comm, o.peer, o.tag)) {
      receive->done = true;
      receive->status = deliver_drained(m, buffer, o.count, o.datatype);
      return MPI_SUCCESS;
    }
  }
  return MPI_Irecv(buffer, o.count, datatype(o.datatype), rank_in(o.peer), tag_in(o.tag), comm(o.comm),
                   &receive->real);
}

inline void note_received(Vid comm, const MPI_Status& s) {
  message_came({comm_record(comm), s.MPI_SOURCE, s.MPI_TAG});
}

// Whether it is complete.
__attribute__((always_inline)) inline bool test(Begun* b) {
  if (__builtin_expect(b->done, 0)) return true;
  const RequestArguments& o = b->arguments;
  MPI_Status s = no_message();
  int over = 0;
  const int code = test_or_wait(&b->real, &over, &s);
  if (!over && __builtin_expect(code == MPI_SUCCESS, 1)) return false;
  b->done = true;
  if (o.kind == kReceiveRequest) {
    note_received(o.comm, s);
    status_out(s, &b->status);
    b->status.error = error_out(code);
  } else {
    b->status = empty_status(error_out(code));
    if (__builtin_expect(code != MPI_SUCCESS, 0)) message_stays({comm_record(o.comm), o.peer, o.tag});
  }
  return true;
}

// Makes it a record. `owned` is a copy that a send reads.
inline Vid record_of(const Begun& b, RequestPlace& place, void* owned = nullptr) {
  const Vid v = place.take(b.arguments, b.real);
  if (owned) request_record(v)->owned = reinterpret_cast<uint64_t>(owned);
  if (__builtin_expect(b.done, 0)) finish_request_with(request_record(v), b.status);
  return v;
}

// Leaves the LH within a blocking call, whose requests are now records. (Without free ones, it waits on.)
int leave_with(Vid first, Vid second) {
  seam::ThreadRecord* t = seam::current_thread();
  t->pending[0] = first;
  t->pending[1] = second;
  return seam::kAgain;
}

// Begins the send of an exchange whose receive is posted; cancels the receive if that fails.
int begin_send(Begun* send, Begun* receive) {
  const RequestArguments& o = send->arguments;
  const int code = begin_to_send(o.buffer, o.count, datatype(o.datatype), o.peer, o.tag, o.comm, &send->real);
  if (code != MPI_SUCCESS && !receive->done) {
    MPI_Status s = no_message();
    int cancelled = 0;
    MPI_Cancel(&receive->real);
    MPI_Wait(&receive->real, &s);
    MPI_Test_cancelled(&s, &cancelled);
    if (!cancelled) note_received(o.comm, s);
  }
  return code;
}

// MPI_Sendrecv. `owned` is a copy that the send reads.
int exchange(Begun receive, Begun send, void* owned, seam::Status* status) {
  int code = post(&receive);
  if (code == MPI_SUCCESS) code = begin_send(&send, &receive);
  if (code != MPI_SUCCESS) {
    handles::heap_free(owned);
    return error_out(code);
  }
  for (Spin spin;; spin.turn()) {
    const bool received = test(&receive), sent = test(&send);
    if (received && sent) break;
    if (!stop_wanted()) continue;
    RequestPlace for_receive(RequestPlace::kQuietly), for_send(RequestPlace::kQuietly);
    if (!for_receive || !for_send) continue;
    const Vid first = record_of(receive, for_receive);
    return leave_with(first, record_of(send, for_send, owned));
  }
  handles::heap_free(owned);
  if (status) *status = receive.status;
  return receive.status.error != seam::kSuccess ? receive.status.error : send.status.error;
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
  Begun b{{kReceiveRequest, seam::kFn_MPI_Recv, buffer, count, type, source, tag, comm}};
  const int code = post(&b);
  if (__builtin_expect(code != MPI_SUCCESS, 0)) return error_out(code);
  for (Spin spin; !test(&b); spin.turn()) {
    if (!stop_wanted()) continue;
    RequestPlace place(RequestPlace::kQuietly);
    if (place) return leave_with(record_of(b, place), 0);
  }
  if (status) *status = b.status;
  return b.status.error;
}

int lower_MPI_Irecv(void* buffer, int count, Vid type, int source, int tag, Vid comm, Vid* request) {
  *request = kNullRequest;
  RequestPlace place;
  if (__builtin_expect(!place, 0)) return seam::kErrIntern;
  Begun b{{kReceiveRequest, seam::kFn_MPI_Irecv, buffer, count, type, source, tag, comm}};
  const int code = post(&b);
  if (__builtin_expect(code != MPI_SUCCESS, 0)) return error_out(code);
  *request = record_of(b, place);
  return seam::kSuccess;
}

int lower_MPI_Sendrecv(const void* send, int send_count, Vid send_type, int dest, int send_tag, void* receive,
                       int receive_count, Vid receive_type, int source, int receive_tag, Vid comm,
                       seam::Status* status) {
  if (continues()) return continue_pending(status);
  constexpr auto kMaker = seam::kFn_MPI_Sendrecv;
  return exchange(
      {{kReceiveRequest, kMaker, receive, receive_count, receive_type, source, receive_tag, comm}},
      {{kSendRequest, kMaker, send, send_count, send_type, dest, send_tag, comm}}, nullptr, status);
}

int lower_MPI_Sendrecv_replace(void* buffer, int count, Vid type, int dest, int send_tag, int source,
                               int receive_tag, Vid comm, seam::Status* status) {
  if (continues()) return continue_pending(status);
  constexpr auto kMaker = seam::kFn_MPI_Sendrecv_replace;
  void* copy = nullptr;
  int bytes = 0;
  const int code = pack(buffer, count, type, comm, &copy, &bytes);
  if (code != MPI_SUCCESS) return error_out(code);
  return exchange({{kReceiveRequest, kMaker, buffer, count, type, source, receive_tag, comm}},
                  {{kSendRequest, kMaker, copy, bytes, seam::kVid_MPI_PACKED, dest, send_tag, comm}}, copy,
                  status);
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
