// Persistent point-to-point requests. The record keeps the arguments. The MPI makes the real request
// immediately, which checks the arguments, and again after a restart. At a cut none is active: sends are
// complete, receives are cancelled and started again later. LH, LH FS base, threads of the program.
#include <algorithm>

#include "interpose/mpi/lower/counting.h"
#include "interpose/mpi/lower/messages.h"
#include "interpose/mpi/lower/state.h"
#include "lower_functions.h"

namespace cropdl::mpi {

static int make_real(const RequestArguments& o, MPI_Request* real) {
  void* buffer = const_cast<void*>(o.buffer);
  const MPI_Datatype type = datatype(o.datatype);
  const int peer = rank_in(o.peer), tag = tag_in(o.tag);
  switch (o.maker) {
    case seam::kFn_MPI_Recv_init:
      return MPI_Recv_init(buffer, o.count, type, peer, tag, comm(o.comm), real);
    case seam::kFn_MPI_Ssend_init:
      return MPI_Ssend_init(buffer, o.count, type, peer, tag, comm(o.comm), real);
    case seam::kFn_MPI_Bsend_init:  // no real request: each start is CropDL's own buffered send
      *real = MPI_REQUEST_NULL;
      return MPI_SUCCESS;
    default:  // also ready sends: see MPI_Rsend
      return MPI_Send_init(buffer, o.count, type, peer, tag, comm(o.comm), real);
  }
}

int remake_persistent_requests() {
  for (const RequestRecord& r : all_requests()) {
    if (r.state == kRequestFree || (r.kind != kPersistentSend && r.kind != kPersistentReceive)) continue;
    const auto kind = static_cast<RequestKind>(r.kind);
    const auto* buffer = reinterpret_cast<const void*>(r.buffer);
    const int count = static_cast<int>(r.count);
    const int code =
        make_real({kind, r.maker, buffer, count, r.datatype, r.peer, r.tag, r.comm}, real_request(vid_of(r)));
    if (code != MPI_SUCCESS) return code;
  }
  return MPI_SUCCESS;
}

static int make_persistent(const RequestArguments& o, Vid* request) {
  *request = kNullRequest;
  RequestPlace place;
  if (!place) return seam::kErrIntern;
  MPI_Request real = MPI_REQUEST_NULL;
  if (const int code = make_real(o, &real); code != MPI_SUCCESS) return error_out(code);
  *request = place.take(o, real, kRequestInactive);
  return seam::kSuccess;
}

static bool may_be_started(Vid v) {
  return is_request(v) && is_persistent(request_record(v)) && request_record(v)->state == kRequestInactive;
}

// `v` must satisfy may_be_started.
static int start_persistent(Vid v) {
  RequestRecord* r = request_record(v);
  auto* buffer = reinterpret_cast<void*>(r->buffer);
  const int count = static_cast<int>(r->count);
  uint64_t* counted = nullptr;
  if (r->kind == kPersistentReceive) {
    if (DrainedMessage* m = state->drained ? take_drained(r->comm, r->peer, r->tag) : nullptr) {
      finish_request_with(r, deliver_drained(m, buffer, count, r->datatype));
      return seam::kSuccess;
    }
  } else if (r->maker == seam::kFn_MPI_Bsend_init) {
    const int error = lower_MPI_Bsend(buffer, count, r->datatype, r->peer, r->tag, r->comm);
    finish_request_with(r, empty_status(error));
    return error;
  } else if (r->kind == kPersistentSend) {
    counted = message_leaves({record_at(r->record), r->peer, r->tag});
  }
  const int code = MPI_Start(real_request(v));
  if (code == MPI_SUCCESS) {
    r->state = kRequestActive;
    r->serial = next_serial();
  } else if (counted) {
    message_stays(counted);
  }
  return error_out(code);
}

static int start_all_persistent(int count, const Vid* requests) {
  for (int i = 0; i < count; ++i) {
    if (!may_be_started(requests[i])) return seam::kErrRequest;
    const int r = start_persistent(requests[i]);
    if (r != seam::kSuccess) return r;
  }
  return seam::kSuccess;
}

extern "C" {

#define PERSISTENT(function, kind)                                                                        \
  int lower_##function(const void* buffer, int count, Vid type, int peer, int tag, Vid comm, Vid* made) { \
    return make_persistent({kind, seam::kFn_##function, buffer, count, type, peer, tag, comm}, made);     \
  }
PERSISTENT(MPI_Send_init, kPersistentSend)
PERSISTENT(MPI_Ssend_init, kPersistentSend)
PERSISTENT(MPI_Rsend_init, kPersistentSend)
PERSISTENT(MPI_Bsend_init, kPersistentSend)
#undef PERSISTENT

int lower_MPI_Recv_init(void* buffer, int count, Vid type, int peer, int tag, Vid comm, Vid* request) {
  return make_persistent({kPersistentReceive, seam::kFn_MPI_Recv_init, buffer, count, type, peer, tag, comm},
                         request);
}

int lower_MPI_Start(Vid* request) { return lower_MPI_Startall(1, request); }

int lower_MPI_Startall(int count, Vid requests[]) {
  const bool synchronous = std::any_of(requests, requests + std::max(count, 0), [](Vid v) {
    return is_request(v) && request_record(v)->maker == seam::kFn_MPI_Ssend_init;
  });
  if (__builtin_expect(!synchronous, 1)) return start_all_persistent(count, requests);
  // Held like MPI_Issend, before any request is started, because the call may be repeated.
  if (!begin_alone(seam::kFn_MPI_Ssend_init)) return seam::kAgain;
  synchronous_sends.store(true, std::memory_order_relaxed);
  const int result = start_all_persistent(count, requests);
  end_collective();
  return result;
}

}  // extern "C"

}  // namespace cropdl::mpi
