// Requests: the records behind the program's handles, and all forms of Wait and Test.
//
// Requests are tested one by one; a completed one keeps its status in the record until it is handed out. So a
// wait can leave the LH at any time (kAgain) and continue later, even in another process; partial completion
// is no special case. LH, LH FS base, threads of the program.
#include <sched.h>

#include <algorithm>
#include <utility>

#include "base/format.h"
#include "interpose/mpi/lower/messages.h"
#include "interpose/mpi/lower/state.h"
#include "lower_functions.h"

namespace cropdl::mpi {
namespace {

bool receives(const RequestRecord* r) { return r->kind == kReceiveRequest || r->kind == kPersistentReceive; }
Message message_of(const RequestRecord* r) {  // for requests that send
  return {reinterpret_cast<CommRecord*>(r->record), r->peer, r->tag};
}
bool sends(const RequestRecord* r) { return r->kind == kSendRequest || r->kind == kPersistentSend; }

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

// A persistent request finds drained messages by its communicator's index at every start, even after the
// communicator was freed.
void hold_comm(RequestRecord* r) {
  r->holds_comm = 0;
  if ((r->kind != kPersistentSend && r->kind != kPersistentReceive) || is_predefined(r->comm)) return;
  handles::SpinGuard guard(structure_lock, multiple);
  if (!tables->live(r->comm)) return;
  tables->retain(r->comm);
  r->holds_comm = 1;
}

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

Vid take_record() {
  handles::SpinGuard guard(structure_lock, multiple);
  uint32_t index = state->request_free;
  if (index) {
    state->request_free = request_record(index)->next;
  } else {
    if (state->request_top >= kCapacity) return kNullRequest;
    index = state->request_top++;
  }
  return seam::make_vid(Kind::kRequest, index);
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
  for (auto* k = reinterpret_cast<Kept*>(r->more[2]); k;) delete std::exchange(k, k->next);
  r->more[1] = r->more[2] = r->more[3] = 0;
}

// The operation is complete and needs nothing of the program's any more.
void operation_over(RequestRecord* r) {
  if (r->owned) {
    handles::heap_free(reinterpret_cast<void*>(r->owned));
    r->owned = 0;
  }
  if (r->kind == kCollectiveRequest) end_of_what_is_kept(r);
  if (r->kind == kOtherRequest && r->maker == seam::kFn_MPI_Comm_idup) --duplicates_under_way;
  if (__builtin_expect(holds_type(r), 0) && !is_persistent(r)) let_go_of_type(r->datatype);
}

}  // namespace

std::atomic<uint32_t> duplicates_under_way;

void Spin::yield() { sched_yield(); }

seam::Status empty_status() { return {seam::kAnySource, seam::kAnyTag, seam::kSuccess, 0, 0}; }

RequestPlace::RequestPlace(Saying says) : vid_(take_record()) {
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
  hold_comm(r);
  if (__builtin_expect(without_recipe(r), 0))
    __atomic_fetch_add(&state->unsaved_requests, 1, __ATOMIC_RELAXED);
  if (__builtin_expect(holds_type(r), 0)) {
    handles::SpinGuard guard(structure_lock, multiple);
    tables->retain(o.datatype);
  }
  *real_request(v) = real;
  // Last: until then the agent (refusing_request) and other threads see a free record, not the previous
  // request's fields.
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
  operation_over(r);
}

void finish_request(RequestRecord* r, const MPI_Status& real_status, int code) {
  seam::Status s;
  status_out(real_status, &s);
  s.error = error_out(code);
  if (r->peer == seam::kProcNull && receives(r)) {
    s.source = seam::kProcNull;  // see post() in point_to_point.cpp
    s.tag = seam::kAnyTag;
  } else if (receives(r) && !s.cancelled) {
    message_came({reinterpret_cast<CommRecord*>(r->record), real_status.MPI_SOURCE, real_status.MPI_TAG});
  } else if (sends(r) && s.cancelled) {
    message_stays(message_of(r));
  }
  finish_request_with(r, s);
}

bool test_request(Vid v, RequestRecord* r, bool waits) {
  if (r->state != kRequestActive) return r->state != kRequestParked;
  int flag = waits && only_sessions();
  MPI_Status s = no_message();
  const int code = flag ? MPI_Wait(real_request(v), &s) : MPI_Test(real_request(v), &flag, &s);
  if (code == MPI_SUCCESS && !flag) return false;
  finish_request(r, s, code);
  return true;
}

namespace {

// Records the communicator of a failed request for the shim, which calls the error handler.
void note_failure(const RequestRecord* r) {
  seam::ThreadRecord* t = seam::current_thread();
  const bool lives =
      reinterpret_cast<const CommRecord*>(r->record) == comm_record(r->comm) && seam::vid_index(r->comm) != 0;
  if (!lives || t->failed[0]) return;
  t->failed[0] = r->comm;
  t->failed[1] = static_cast<uint32_t>(r->status.error);
}

}  // namespace

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
  if (!state->unsaved_requests && !synchronous_sends.load(std::memory_order_relaxed)) return {};
  for (uint32_t i = seam::kFirstDynamic; i < state->request_top; ++i) {
    const RequestRecord* r = request_record(i);
    const uint8_t present = __atomic_load_n(&r->state, __ATOMIC_ACQUIRE);
    if (present == kRequestFree) continue;
    if (!without_recipe(r) && !(is_synchronous(r) && present == kRequestActive)) continue;
    const std::string name = function_name(r->maker);
    if (r->more[1]) return name + ": a reduction by an operation of the program's own is not complete";
    return name +
           (r->kind == kPersistentOther ? ": a persistent request exists" : ": a request is not complete");
  }
  return {};
}

std::string request_trouble() {
  for (uint32_t i = seam::kFirstDynamic; i < state->request_top; ++i) {
    const RequestRecord* r = request_record(i);
    const bool pending = r->state == kRequestActive && r->kind == kReceiveRequest;
    const bool started_again =
        r->state != kRequestFree && (r->kind == kPersistentSend || r->kind == kPersistentReceive);
    if (!(pending || started_again) || r->comm == kNullComm) continue;
    // The index may belong to another communicator by now. (An inter-communicator has no record; it exists if
    // its handle is live.)
    const bool lives = r->record != 0 || tables->live(r->comm);
    if (lives && reinterpret_cast<const CommRecord*>(r->record) == comm_record(r->comm)) continue;
    return formatted("{}{} on a communicator that was freed", function_name(r->maker),
                     started_again ? ": a persistent request exists" : ": a receive is pending");
  }
  return {};
}

namespace {

// By serial: in posting order. post_parked() after park_receives() needs no more room than that one, so
// memory cannot be short in it: the program would lose its receives.
std::vector<std::pair<uint64_t, Vid>> posted;

template <class F>
void list_in_posting_order(F chosen) {
  posted.clear();
  for (uint32_t i = seam::kFirstDynamic; i < state->request_top; ++i) {
    if (const RequestRecord* r = request_record(i); chosen(r))
      posted.emplace_back(r->serial, seam::make_vid(Kind::kRequest, i));
  }
  std::sort(posted.begin(), posted.end());
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
  list_in_posting_order([](const RequestRecord* r) { return r->state == kRequestActive && receives(r); });
  for (auto last = posted.rbegin(); last != posted.rend(); ++last) {
    *maker = request_record(last->second)->maker;
    if (const int code = park(last->second); code != MPI_SUCCESS) return code;
  }
  return MPI_SUCCESS;
}

int post_parked() {
  int result = MPI_SUCCESS;
  list_in_posting_order([](const RequestRecord* r) { return r->state == kRequestParked; });
  for (const auto& [serial, v] : posted) {
    if (const int code = post_again(v); code != MPI_SUCCESS && result == MPI_SUCCESS) result = code;
  }
  return result;
}

}  // namespace cropdl::mpi

using namespace cropdl::mpi;
namespace seam = cropdl::seam;
using seam::Vid;

namespace {

bool is_null(Vid v) { return seam::vid_index(v) == 0; }
bool valid(Vid v) { return is_request(v); }
// Whether all of them are null or live.
bool valid(const Vid* v, int n) {
  for (int i = 0; i < n; ++i) {
    if (!is_null(v[i]) && !valid(v[i])) return false;
  }
  return true;
}
// Neither null nor an inactive persistent request: the requests that Waitany, Waitsome and the like consider.
bool counts(Vid v) { return !is_null(v) && request_record(v)->state != kRequestInactive; }

// An active request that the program freed continues without a handle. A cut releases the completed ones. So
// that they do not accumulate without cuts, each freed request pays for looking at a few records.
void leave_behind(Vid* request) {
  constexpr uint32_t kFewest = 1024, kLooksEach = 8;
  static std::atomic<uint32_t> freed;
  static cropdl::handles::SpinLock lock;
  request_record(*request)->orphan = 1;
  *request = kNullRequest;
  const uint32_t used = state->request_top - seam::kFirstDynamic;
  if (++freed < std::max(kFewest, used / kLooksEach) || !may_drive() || !lock.try_lock()) return;
  freed = 0;
  for (uint32_t i = seam::kFirstDynamic; i < state->request_top; ++i) {
    RequestRecord* r = request_record(i);
    if (__atomic_load_n(&r->state, __ATOMIC_ACQUIRE) == kRequestFree || !r->orphan) continue;
    if (r->kind != kReceiveRequest && r->kind != kCollectiveRequest) continue;
    const Vid v = seam::make_vid(seam::Kind::kRequest, i);
    if (!test_request(v, r)) continue;
    free_inactive(v);
    release_request(v);
  }
  lock.unlock();
}

// Hands out all requests of an array; all must be complete.
int hand_out_all(int n, Vid* v, seam::Status* statuses) {
  int result = seam::kSuccess;
  for (int i = 0; i < n; ++i) {
    seam::Status s = empty_status();
    int error = seam::kSuccess;
    if (!is_null(v[i])) error = hand_out_request(&v[i], request_record(v[i]), &s);
    s.error = error;
    if (error != seam::kSuccess) result = seam::kErrInStatus;
    if (statuses) statuses[i] = s;
  }
  return result;
}

// Hands out all requests that are complete now, with indices and statuses. *count is kUndefined if none is
// considered.
int hand_out_some(int n, Vid* v, int* count, int* indices, seam::Status* statuses) {
  int done = 0, candidates = 0, result = seam::kSuccess;
  for (int i = 0; i < n; ++i) {
    if (!counts(v[i])) continue;
    ++candidates;
    RequestRecord* r = request_record(v[i]);
    if (!test_request(v[i], r)) continue;
    seam::Status s;
    const int error = hand_out_request(&v[i], r, &s);
    s.error = error;
    if (error != seam::kSuccess) result = seam::kErrInStatus;
    if (statuses) statuses[done] = s;
    indices[done++] = i;
  }
  *count = candidates ? done : seam::kUndefined;
  return result;
}

// Hands out the first complete request; false if none is complete. If none is considered, returns true with
// *index kUndefined.
bool hand_out_any(int n, Vid* v, int* index, seam::Status* status, int* result) {
  *index = seam::kUndefined;
  *result = seam::kSuccess;
  bool candidates = false;
  for (int i = 0; i < n; ++i) {
    if (!counts(v[i])) continue;
    candidates = true;
    RequestRecord* r = request_record(v[i]);
    if (!test_request(v[i], r)) continue;
    *index = i;
    *result = hand_out_request(&v[i], r, status);
    return true;
  }
  if (!candidates && status) *status = empty_status();
  return !candidates;
}

}  // namespace

extern "C" {

int lower_MPI_Wait(Vid* request, seam::Status* status) {
  if (is_null(*request)) {
    if (status) *status = empty_status();
    return seam::kSuccess;
  }
  if (!valid(*request)) return seam::kErrRequest;
  RequestRecord* r = request_record(*request);
  for (Spin spin; !test_request(*request, r, true); spin.turn()) {
    if (stop_wanted()) return seam::kAgain;
  }
  return hand_out_request(request, r, status);
}

int lower_MPI_Test(Vid* request, int* flag, seam::Status* status) {
  *flag = 1;
  if (is_null(*request)) {
    if (status) *status = empty_status();
    return seam::kSuccess;
  }
  if (!valid(*request)) return seam::kErrRequest;
  RequestRecord* r = request_record(*request);
  if (!test_request(*request, r)) {
    *flag = 0;
    return seam::kSuccess;
  }
  return hand_out_request(request, r, status);
}

int lower_MPI_Waitall(int count, Vid requests[], seam::Status statuses[]) {
  if (!valid(requests, count)) return seam::kErrRequest;
  for (int i = 0; i < count; ++i) {
    if (is_null(requests[i])) continue;
    RequestRecord* r = request_record(requests[i]);
    for (Spin spin; !test_request(requests[i], r, true); spin.turn()) {
      if (stop_wanted()) return seam::kAgain;
    }
  }
  return hand_out_all(count, requests, statuses);
}

int lower_MPI_Testall(int count, Vid requests[], int* flag, seam::Status statuses[]) {
  if (!valid(requests, count)) return seam::kErrRequest;
  *flag = 1;
  for (int i = 0; i < count; ++i) {
    if (!is_null(requests[i]) && !test_request(requests[i], request_record(requests[i]))) *flag = 0;
  }
  return *flag ? hand_out_all(count, requests, statuses) : seam::kSuccess;
}

int lower_MPI_Waitany(int count, Vid requests[], int* index, seam::Status* status) {
  if (!valid(requests, count)) return seam::kErrRequest;
  int result = seam::kSuccess;
  for (Spin spin; !hand_out_any(count, requests, index, status, &result); spin.turn()) {
    if (stop_wanted()) return seam::kAgain;
  }
  return result;
}

int lower_MPI_Testany(int count, Vid requests[], int* index, int* flag, seam::Status* status) {
  if (!valid(requests, count)) return seam::kErrRequest;
  int result = seam::kSuccess;
  *flag = hand_out_any(count, requests, index, status, &result);
  return result;
}

int lower_MPI_Waitsome(int count, Vid requests[], int* outcount, int indices[], seam::Status statuses[]) {
  if (!valid(requests, count)) return seam::kErrRequest;
  for (Spin spin;; spin.turn()) {
    const int result = hand_out_some(count, requests, outcount, indices, statuses);
    if (*outcount != 0) return result;
    if (stop_wanted()) return seam::kAgain;
  }
}

int lower_MPI_Testsome(int count, Vid requests[], int* outcount, int indices[], seam::Status statuses[]) {
  if (!valid(requests, count)) return seam::kErrRequest;
  return hand_out_some(count, requests, outcount, indices, statuses);
}

int lower_MPI_Request_free(Vid* request) {
  if (is_null(*request) || !valid(*request)) return seam::kErrRequest;
  RequestRecord* r = request_record(*request);
  if (receives(r) && r->state == kRequestActive) {
    // It still receives a message: it continues without a handle, and the drain tests it.
    let_go_of_comm(r);
    r->kind = kReceiveRequest;  // never started again
    leave_behind(request);
    return seam::kSuccess;
  }
  if (r->maker == seam::kFn_MPI_Grequest_start && r->state == kRequestActive) {
    const cropdl::handles::SpinGuard guard(structure_lock, multiple);
    if (!r->ended) {
      r->orphan = 1;  // the program completes it later, by a copy of the handle
      *request = kNullRequest;
      return seam::kSuccess;
    }
  }
#if !defined(OPEN_MPI)  // Open MPI refuses it, as it may: the call is erroneous
  if (r->kind == kCollectiveRequest && r->state == kRequestActive) {
    leave_behind(request);  // it continues in the MPI, and a cut must wait for it
    return seam::kSuccess;
  }
#endif
  int code = MPI_SUCCESS;
  const bool real = r->state == kRequestActive || (is_persistent(r) && r->maker != seam::kFn_MPI_Bsend_init);
  if (real) code = MPI_Request_free(real_request(*request));
  if (code != MPI_SUCCESS && r->kind == kCollectiveRequest) return error_out(code);
  // A freed MPI_Ibsend does not free the copy: the buffered send still reads it.
  release_request(*request);
  *request = kNullRequest;
  return error_out(code);
}

int lower_MPI_Request_get_status(Vid request, int* flag, seam::Status* status) {
  *flag = 1;
  if (is_null(request)) {
    if (status) *status = empty_status();
    return seam::kSuccess;
  }
  if (!valid(request)) return seam::kErrRequest;
  RequestRecord* r = request_record(request);
  *flag = test_request(request, r);
  if (*flag && status) *status = r->state == kRequestInactive ? empty_status() : r->status;
#if !defined(OPEN_MPI)
  if (*flag && r->state == kRequestDone)
    return r->status.error;  // Open MPI reports the error at completion only
#endif
  return seam::kSuccess;
}

int lower_MPI_Cancel(Vid* request) {
  if (is_null(*request) || !valid(*request)) return seam::kErrRequest;
  if (request_record(*request)->state != kRequestActive)
    return seam::kSuccess;  // completed: too late, as natively
  return error_out(MPI_Cancel(real_request(*request)));
}

int lower_MPI_Test_cancelled(const seam::Status* status, int* flag) {
  *flag = status->cancelled;
  return seam::kSuccess;
}

}  // extern "C"
