// The records behind the program's handles of requests: made, completed, handed out and freed. A completed
// request keeps its status in the record until it is handed out. LH, LH FS base, threads of the program.
#include <utility>

#include "base/format.h"
#include "interpose/mpi/lower/messages.h"
#include "interpose/mpi/lower/state.h"

namespace cropdl::mpi {
namespace {

// A send that ends when its receive has begun.
bool is_synchronous(const RequestRecord& r) {
  return r.maker == seam::kFn_MPI_Issend || r.maker == seam::kFn_MPI_Ssend_init;
}

// Whether the record needs the datatype later, to post a receive again or at every start.
bool holds_type(const RequestRecord* r) {
  return !is_predefined(r->datatype) && (r->kind == kReceiveRequest || is_persistent(r));
}

void let_go_of_type(Vid type) {
  handles::SpinGuard guard(structure_lock, multiple);
  std::vector<handles::Handle> gone;
  tables->let_go(type, gone);
  destroy_objects(gone);
}

void give_back_record(Vid v) {
  handles::SpinGuard guard(structure_lock, multiple);
  request_record(v)->next = state->request_free;
  state->request_free = v & kIndexMask;
}

// Frees what only pending collectives and operations without a recipe have, so it is never in an image: the
// user-defined reduction (more[1]), its function's datatype (more[3]), arrays in the LH (more[2]).
void end_of_what_is_kept(RequestRecord* r) {
  if (r->more[1]) {
    let_go_of_op(static_cast<Vid>(r->more[1]));
    let_go_of_type(static_cast<Vid>(r->more[3]));
  }
  for (auto* k = reinterpret_cast<KeptTypes*>(r->more[2]); k;) delete std::exchange(k, k->next);
  r->more[1] = r->more[2] = r->more[3] = 0;
}

}  // namespace

void let_go_of_comm(RequestRecord* r) {
  if (!std::exchange(r->holds_comm, 0)) return;
  std::vector<DrainedMessage*> left;
  {
    handles::SpinGuard guard(structure_lock, multiple);
    std::vector<handles::Handle> gone;
    tables->let_go(r->comm, gone);
    if (!gone.empty()) left = take_all_drained(r->comm);
    destroy_objects(gone);
  }
  drop_drained(left);
}

std::atomic<uint32_t> duplicates_under_way;

RequestPlace::RequestPlace(Saying says) {
  {
    handles::SpinGuard guard(structure_lock, multiple);
    uint32_t index = state->request_free;  // 0: none, as the null request's
    if (index)
      state->request_free = request_record(index)->next;
    else if (state->request_top < kCapacity)
      index = state->request_top++;
    vid_ = seam::make_vid(Kind::kRequest, index);
  }
  if (__builtin_expect(vid_ == kNullRequest && says == kAloud, 0))
    say_of_rank(formatted("more than {} requests are alive", kCapacity - seam::kFirstDynamic));
}

RequestPlace::~RequestPlace() {
  if (__builtin_expect(vid_ != kNullRequest, 0)) give_back_record(vid_);
}

Vid RequestPlace::take(const RequestArguments& o, MPI_Request real, RequestState begins) {
  const Vid v = std::exchange(vid_, kNullRequest);
  RequestRecord* r = request_record(v);
  r->kind = o.kind;
  r->orphan = 0;
  r->matched = 0;
  r->comm = o.comm;
  r->datatype = o.datatype;
  r->peer = o.peer;
  r->tag = o.tag;
  r->count = o.count;
  r->buffer = reinterpret_cast<uint64_t>(o.buffer);
  r->serial = next_serial();
  r->owned = 0;
  r->more[0] = r->more[1] = r->more[2] = 0;
  r->record = reinterpret_cast<uint64_t>(comm_record(o.comm));
  r->maker = o.maker;
  r->holds_comm = 0;
  // A persistent request finds drained messages by its communicator's index, even after that was freed.
  if (r->kind >= kPersistentSend && !is_predefined(r->comm)) {
    handles::SpinGuard guard(structure_lock, multiple);
    r->holds_comm = tables->live(r->comm);
    if (r->holds_comm) tables->retain(r->comm);
  }
  if (__builtin_expect(without_recipe(r), 0))
    __atomic_fetch_add(&state->unsaved_requests, 1, __ATOMIC_RELAXED);
  if (__builtin_expect(holds_type(r), 0)) {
    handles::SpinGuard guard(structure_lock, multiple);
    tables->retain(o.datatype);
  }
  *real_request(v) = real;
  // Last: until then the agent (refusing_request) and other threads see a free record, not old fields.
  __atomic_store_n(&r->state, begins, __ATOMIC_RELEASE);
  return v;
}

void release_request(Vid v) {
  RequestRecord* r = request_record(v);
  if (__builtin_expect(without_recipe(r), 0))
    __atomic_fetch_sub(&state->unsaved_requests, 1, __ATOMIC_RELAXED);
  if (__builtin_expect((r->more[1] | r->more[2]) != 0, 0)) end_of_what_is_kept(r);
  if (is_persistent(r) && holds_type(r)) let_go_of_type(r->datatype);
  let_go_of_comm(r);
  rebind_handle(v, 0);
  r->state = kRequestFree;
  give_back_record(v);
}

void free_inactive(Vid v) {
  if (*real_request(v) != MPI_REQUEST_NULL) MPI_Request_free(real_request(v));
}

void finish_request_with(RequestRecord* r, const seam::Status& status) {
  r->status = status;
  r->state = kRequestDone;
  // The operation needs nothing of the program's any more.
  if (r->owned) {
    handles::heap_free(reinterpret_cast<void*>(r->owned));
    r->owned = 0;
  }
  if (r->kind == kCollectiveRequest) end_of_what_is_kept(r);
  if (r->kind == kOtherRequest && r->maker == seam::kFn_MPI_Comm_idup) --duplicates_under_way;
  if (__builtin_expect(holds_type(r), 0) && !is_persistent(r)) let_go_of_type(r->datatype);
}

void finish_request(RequestRecord* r, const MPI_Status& real_status, int code) {
  seam::Status s;
  status_out(real_status, &s);
  s.error = error_out(code);
  if (r->peer == seam::kProcNull && receives(r)) {
    s.source = seam::kProcNull;  // see post() in point_to_point.cpp
    s.tag = seam::kAnyTag;
  } else if (receives(r) && !s.cancelled) {
    message_came({record_at(r->record), real_status.MPI_SOURCE, real_status.MPI_TAG});
  } else if (sends(r) && s.cancelled) {
    message_stays({record_at(r->record), r->peer, r->tag});
  }
  finish_request_with(r, s);
}

bool test_request(Vid v, RequestRecord* r, bool waits) {
  if (r->state != kRequestActive) return r->state != kRequestParked;
  int flag = 0;
  MPI_Status s = no_message();
  const int code = waits ? test_or_wait(real_request(v), &flag, &s) : MPI_Test(real_request(v), &flag, &s);
  if (code == MPI_SUCCESS && !flag) {
    if (r->kind == kCollectiveRequest) note_modes(&modes_of_collectives);
    return false;
  }
  finish_request(r, s, code);
  return true;
}

constexpr const char* kNotComplete = ": a request is not complete";

// Records the communicator of a failed request for the shim, which calls the error handler.
static void note_failure(const RequestRecord* r) {
  seam::ThreadRecord* t = seam::current_thread();
  const bool lives = record_at(r->record) == comm_record(r->comm) && seam::vid_index(r->comm) != 0;
  if (!lives || t->failed[0]) return;
  t->failed[0] = r->comm;
  t->failed[1] = static_cast<uint32_t>(r->status.error);
}

int hand_out_request(Vid* v, RequestRecord* r, seam::Status* status) {
  if (r->state == kRequestInactive) {
    if (status) *status = empty_status();
    return seam::kSuccess;
  }
  const int error = r->status.error;
  if (status) *status = r->status;
  if (__builtin_expect(error != seam::kSuccess, 0)) note_failure(r);
  if (is_persistent(r)) {
    r->state = kRequestInactive;
  } else {
    release_request(*v);
    *v = kNullRequest;
  }
  return error;
}

std::string refusing_request() {
  if (!state->unsaved_requests) return {};
  for (const RequestRecord& r : all_requests()) {
    if (__atomic_load_n(&r.state, __ATOMIC_ACQUIRE) == kRequestFree || !without_recipe(&r)) continue;
    const std::string name = function_name(r.maker);
    if (r.more[1]) return name + ": a reduction by an operation of the program's own is not complete";
    return name + (r.kind == kPersistentOther ? ": a persistent request exists" : kNotComplete);
  }
  return {};
}

std::string pending_synchronous_send(uint64_t* oldest) {
  if (!synchronous_sends.load(std::memory_order_relaxed)) return {};
  const RequestRecord* first = nullptr;
  for (const RequestRecord& r : all_requests()) {
    if (__atomic_load_n(&r.state, __ATOMIC_ACQUIRE) == kRequestActive && is_synchronous(r) &&
        (!first || r.serial < first->serial))
      first = &r;
  }
  if (!first) return {};
  if (oldest) *oldest = first->serial;
  return std::string(function_name(first->maker)) + kNotComplete;
}

void test_synchronous_sends() {
  if (multiple || !synchronous_sends.load(std::memory_order_relaxed) || !may_drive()) return;
  for (RequestRecord& r : all_requests())
    if (r.state == kRequestActive && is_synchronous(r)) test_request(vid_of(r), &r);
}

std::string request_trouble() {
  for (const RequestRecord& r : all_requests()) {
    const bool pending = r.state == kRequestActive && r.kind == kReceiveRequest;
    const bool started_again =
        r.state != kRequestFree && (r.kind == kPersistentSend || r.kind == kPersistentReceive);
    if (!(pending || started_again) || r.comm == kNullComm) continue;
    // The index may be another communicator's now. (An inter-communicator has no record, but a live handle.)
    const bool lives = r.record != 0 || tables->live(r.comm);
    if (lives && record_at(r.record) == comm_record(r.comm)) continue;
    return formatted("{}{} on a communicator that was freed", function_name(r.maker),
                     started_again ? ": a persistent request exists" : ": a receive is pending");
  }
  return {};
}

}  // namespace cropdl::mpi
