// Pending receives at a cut (cut_session.h).
#include <algorithm>

#include "base/caught.h"
#include "interpose/mpi/lower/cut_session.h"

namespace cropdl::mpi {

static int take_back(Vid v) {
  RequestRecord* r = request_record(v);
  if (const int code = MPI_Cancel(real_request(v)); code != MPI_SUCCESS) return code;  // pending as before
  MPI_Status s = no_message();
  int cancelled = 0;
  const int code = MPI_Wait(real_request(v), &s);
  if (code == MPI_SUCCESS) MPI_Test_cancelled(&s, &cancelled);
  // A persistent request that the program freed is posted again as an ordinary one.
  if (!is_persistent(r)) free_inactive(v);
  if (cancelled) {
    r->state = kRequestParked;
    return code;
  }
  finish_request(r, s, code);
  if (r->orphan) release_request(v);
  return code;
}

static int post_again(Vid v) {
  RequestRecord* r = request_record(v);
  const int code =
      is_persistent(r)
          ? MPI_Start(real_request(v))
          : MPI_Irecv(reinterpret_cast<void*>(r->buffer), static_cast<int>(r->count), datatype(r->datatype),
                      rank_in(r->peer), tag_in(r->tag), comm(r->comm), real_request(v));
  if (code == MPI_SUCCESS) {
    r->state = kRequestActive;
    return code;
  }
  // A receive whose end cannot be recorded in full must not keep the others parked.
  [[maybe_unused]] const Status ended = caught([&] {
    seam::Status failed = empty_status();
    failed.error = error_out(code);
    finish_request_with(r, failed);
    if (r->orphan) release_request(v);
  });
  return code;
}

void ParkedReceives::list(bool with_pending) {
  at_cut_.clear();
  for (const RequestRecord& r : all_requests())
    if (r.state == kRequestParked || (with_pending && r.state == kRequestActive && receives(&r)))
      at_cut_.emplace_back(r.serial, vid_of(r));
  std::sort(at_cut_.begin(), at_cut_.end());
}

// The last receive first: if one cannot be cancelled, the earlier ones keep their places, and the later ones
// are posted again after it. (MPICH searches its list of all receives for each.)
int ParkedReceives::park(uint32_t* maker) {
  list(true);
  for (auto r = at_cut_.rbegin(); r != at_cut_.rend(); ++r) {
    const RequestRecord* record = request_record(r->second);
    if (record->state == kRequestParked) continue;  // in an earlier attempt that failed in the middle
    *maker = record->maker;
    if (const int code = take_back(r->second); code != MPI_SUCCESS) return code;
  }
  return MPI_SUCCESS;
}

int ParkedReceives::post() {
  int result = MPI_SUCCESS;
  for (const auto& [serial, v] : at_cut_) {
    if (request_record(v)->state != kRequestParked) continue;
    if (const int code = post_again(v); code != MPI_SUCCESS && result == MPI_SUCCESS) result = code;
  }
  at_cut_.clear();
  return result;
}

int ParkedReceives::post_those_of_image() {
  list(false);
  return post();
}

}  // namespace cropdl::mpi
