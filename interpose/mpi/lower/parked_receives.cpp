// Pending receives at a cut (message_drain.h).
#include <algorithm>

#include "base/caught.h"
#include "interpose/mpi/lower/message_drain.h"

namespace cropdl::mpi {
namespace {

// The receives that may be parked, in the order of posting, each with its serial number. Kept for posting,
// which follows a write that perhaps failed for lack of memory, and must not allocate.
std::vector<std::pair<uint64_t, Vid>> at_cut;

int take_back(Vid v) {
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
  // A receive whose end cannot be recorded in full must not keep the others parked.
  [[maybe_unused]] const Status ended = caught([&] {
    finish_request_with(r, empty_status(error_out(code)));
    if (r->orphan) release_request(v);
  });
  return code;
}

void list_receives(bool with_pending) {
  at_cut.clear();
  for (const RequestRecord& r : all_requests())
    if (r.state == kRequestParked || (with_pending && r.state == kRequestActive && receives(&r)))
      at_cut.emplace_back(r.serial, vid_of(r));
  std::sort(at_cut.begin(), at_cut.end());
}

}  // namespace

// The last receive first: if one cannot be cancelled, the earlier ones keep their places, and the later ones
// are posted again after it. (MPICH searches its list of all receives for each.)
int park_receives(uint32_t* maker) {
  list_receives(true);
  for (auto r = at_cut.rbegin(); r != at_cut.rend(); ++r) {
    const RequestRecord* record = request_record(r->second);
    if (record->state == kRequestParked) continue;  // in an earlier attempt that failed in the middle
    *maker = record->maker;
    if (const int code = take_back(r->second); code != MPI_SUCCESS) return code;
  }
  return MPI_SUCCESS;
}

int post_parked_receives() {
  int result = MPI_SUCCESS;
  for (const auto& [serial, v] : at_cut) {
    if (request_record(v)->state != kRequestParked) continue;
    if (const int code = post_again(v); code != MPI_SUCCESS && result == MPI_SUCCESS) result = code;
  }
  at_cut.clear();
  return result;
}

int post_receives_of_image() {
  list_receives(false);
  return post_parked_receives();
}

}  // namespace cropdl::mpi
