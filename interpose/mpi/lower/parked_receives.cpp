// Pending receives at a cut: cancelled for the image, and posted again in their order. LH, LH FS base, the
// parked main thread, or before the program runs.
#include <algorithm>
#include <utility>

#include "interpose/mpi/lower/state.h"

namespace cropdl::mpi {
namespace {

template <class F>
std::vector<Vid> in_posting_order(F chosen) {
  std::vector<std::pair<uint64_t, Vid>> found;
  for (uint32_t i = seam::kFirstDynamic; i < state->request_top; ++i) {
    if (const RequestRecord* r = request_record(i); chosen(r))
      found.emplace_back(r->serial, seam::make_vid(Kind::kRequest, i));
  }
  std::sort(found.begin(), found.end());
  std::vector<Vid> all;
  all.reserve(found.size());
  for (const auto& [serial, v] : found) all.push_back(v);
  return all;
}

int park(Vid v) {
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

int post_again(Vid v) {
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
  seam::Status failed = empty_status();
  failed.error = error_out(code);
  finish_request_with(r, failed);
  if (r->orphan) release_request(v);
  return code;
}

}  // namespace

// The last receive first: if one cannot be cancelled, the earlier ones have kept their places, and the later
// ones are posted again after it. (MPICH searches its list of all receives for each, as for each arriving
// message.)
int park_receives(uint32_t* maker) {
  const std::vector<Vid> pending =
      in_posting_order([](const RequestRecord* r) { return r->state == kRequestActive && receives(r); });
  for (auto v = pending.rbegin(); v != pending.rend(); ++v) {
    *maker = request_record(*v)->maker;
    if (const int code = park(*v); code != MPI_SUCCESS) return code;
  }
  return MPI_SUCCESS;
}

int post_parked() {
  int result = MPI_SUCCESS;
  for (Vid v : in_posting_order([](const RequestRecord* r) { return r->state == kRequestParked; })) {
    if (const int code = post_again(v); code != MPI_SUCCESS && result == MPI_SUCCESS) result = code;
  }
  return result;
}

}  // namespace cropdl::mpi
