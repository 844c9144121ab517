// All forms of Wait and Test, MPI_Request_free and MPI_Cancel, generalized requests.
//
// Requests are tested one by one, and complete in their records (request_records.cpp). So a wait can leave
// the LH at any time (kAgain) and continue later, even in another process; partial completion is no special
// case. LH, LH FS base, threads of the program.
#include <algorithm>

#include "interpose/mpi/lower/state.h"
#include "lower_functions.h"

namespace cropdl::mpi {

namespace {

bool is_null(Vid v) { return seam::vid_index(v) == 0; }
// Whether all of them are null or live.
bool valid(const Vid* v, int n) {
  return std::all_of(v, v + std::max(n, 0), [](Vid one) { return is_null(one) || is_request(one); });
}
// Neither null nor an inactive persistent request: the requests that Waitany, Waitsome and the like consider.
bool counts(Vid v) { return !is_null(v) && request_record(v)->state != kRequestInactive; }

// An active request that the program freed continues without a handle. A cut releases the completed ones. So
// that they do not accumulate without cuts, each freed request pays for looking at a few records.
void leave_behind(Vid* request) {
  constexpr uint32_t kFewest = 1024, kLooksEach = 8;
  static std::atomic<uint32_t> freed;
  static handles::SpinLock lock;
  request_record(*request)->orphan = 1;
  *request = kNullRequest;
  const uint32_t used = state->request_top - seam::kFirstDynamic;
  if (++freed < std::max(kFewest, used / kLooksEach) || !may_drive() || !lock.try_lock()) return;
  freed = 0;
  for (RequestRecord& r : all_requests()) {
    if (__atomic_load_n(&r.state, __ATOMIC_ACQUIRE) == kRequestFree || !r.orphan) continue;
    if (r.kind != kReceiveRequest && r.kind != kCollectiveRequest) continue;
    const Vid v = vid_of(r);
    if (!test_request(v, &r)) continue;
    free_inactive(v);
    release_request(v);
  }
  lock.unlock();
}

// Whether MPI_Waitall ends while other requests are pending: in Open MPI at the first error, in MPICH never.
#if defined(OPEN_MPI)
constexpr bool kErrorEndsWaiting = true;
#else
constexpr bool kErrorEndsWaiting = false;
#endif
bool ends_waiting(const RequestRecord* r) {
  return kErrorEndsWaiting &&
         __builtin_expect(r->state == kRequestDone && r->status.error != seam::kSuccess, 0);
}

// The answer for a null request.
int give_empty(seam::Status* status) {
  if (status) *status = empty_status();
  return seam::kSuccess;
}

// Hands out all requests of an array. Pending ones, where one has failed (ends_waiting), stay.
int hand_out_all(int n, Vid* v, seam::Status* statuses) {
  int result = seam::kSuccess;
  for (int i = 0; i < n; ++i) {
    seam::Status s = empty_status();
    int error = seam::kSuccess;
    if (!is_null(v[i])) {
      RequestRecord* r = request_record(v[i]);
      const bool done = __builtin_expect(r->state != kRequestActive, 1) || test_request(v[i], r);
      error = done ? hand_out_request(&v[i], r, &s) : seam::kErrPending;
    }
    s.error = error;
    if (error != seam::kSuccess) result = seam::kErrInStatus;
    if (statuses) statuses[i] = s;
  }
  return result;
}

// Hands out all complete requests, with indices and statuses. *count: kUndefined if none is considered.
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

// Hands out the first complete request; false: none is. If none is considered: true, *index kUndefined.
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

// Generalized requests: the MPI underneath has one for each and calls the program's functions through the
// shim, above its own frames, UH FS base. Without a recipe, they refuse checkpoints while alive.
int call(void* callbacks, int what, seam::Status* status, int complete) {
  auto* c = static_cast<seam::GeneralizedCallbacks*>(callbacks);
  return seam::call_upper<int>(c->call, c, what, status, complete);
}

int query(void* callbacks, MPI_Status* real) {
  seam::Status status = empty_status();
  const int code = call(callbacks, seam::kQueryGeneralized, &status, 0);
  const int error = real->MPI_ERROR;
  *real = status_in(status);
  real->MPI_ERROR = error;
  return code;
}
int released(void* callbacks) { return call(callbacks, seam::kFreeGeneralized, nullptr, 0); }
int cancelled(void* callbacks, int complete) {
  return call(callbacks, seam::kCancelGeneralized, nullptr, complete);
}

}  // namespace

extern "C" {

int lower_MPI_Wait(Vid* request, seam::Status* status) {
  if (is_null(*request)) return give_empty(status);
  if (!is_request(*request)) return seam::kErrRequest;
  RequestRecord* r = request_record(*request);
  for (Spin spin; !test_request(*request, r, true); spin.turn())
    if (stop_wanted()) return seam::kAgain;
  return hand_out_request(request, r, status);
}

int lower_MPI_Test(Vid* request, int* flag, seam::Status* status) {
  *flag = 1;
  if (is_null(*request)) return give_empty(status);
  if (!is_request(*request)) return seam::kErrRequest;
  RequestRecord* r = request_record(*request);
  *flag = test_request(*request, r);
  return *flag ? hand_out_request(request, r, status) : seam::kSuccess;
}

int lower_MPI_Waitall(int count, Vid requests[], seam::Status statuses[]) {
  if (!valid(requests, count)) return seam::kErrRequest;
  // While it waits for one request, another may fail. At every 16th turn, the next one is tested: often
  // enough, since the MPI makes progress on all of them in each test.
  int next = 0;
  uint32_t turns = 0;
  const auto another_failed = [&] {
    if (!kErrorEndsWaiting || count == 1 || ++turns % 16 != 0) return false;
    const Vid v = requests[next];
    next = next + 1 < count ? next + 1 : 0;
    return !is_null(v) && test_request(v, request_record(v)) && ends_waiting(request_record(v));
  };
  for (int i = 0; i < count; ++i) {
    if (is_null(requests[i])) continue;
    RequestRecord* r = request_record(requests[i]);
    for (Spin spin; !test_request(requests[i], r, true); spin.turn()) {
      if (stop_wanted()) return seam::kAgain;
      if (another_failed()) return hand_out_all(count, requests, statuses);
    }
    if (ends_waiting(r)) break;
  }
  return hand_out_all(count, requests, statuses);
}

int lower_MPI_Testall(int count, Vid requests[], int* flag, seam::Status statuses[]) {
  if (!valid(requests, count)) return seam::kErrRequest;
  *flag = 1;
  for (int i = 0; i < count; ++i)
    if (!is_null(requests[i]) && !test_request(requests[i], request_record(requests[i]))) *flag = 0;
  return *flag ? hand_out_all(count, requests, statuses) : seam::kSuccess;
}

int lower_MPI_Waitany(int count, Vid requests[], int* index, seam::Status* status) {
  if (!valid(requests, count)) return seam::kErrRequest;
  int result = seam::kSuccess;
  for (Spin spin; !hand_out_any(count, requests, index, status, &result); spin.turn())
    if (stop_wanted()) return seam::kAgain;
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
  if (!is_request(*request)) return seam::kErrRequest;
  RequestRecord* r = request_record(*request);
  if (receives(r) && r->state == kRequestActive) {
    // It still receives a message: it continues without a handle, and the drain tests it.
    let_go_of_comm(r);
    r->kind = kReceiveRequest;  // never started again
    leave_behind(request);
    return seam::kSuccess;
  }
  if (r->maker == seam::kFn_MPI_Grequest_start && r->state == kRequestActive) {
    const handles::SpinGuard guard(structure_lock, multiple);
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
  if (is_null(request)) return give_empty(status);
  if (!is_request(request)) return seam::kErrRequest;
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
  if (!is_request(*request)) return seam::kErrRequest;
  const RequestRecord* r = request_record(*request);
#if !defined(OPEN_MPI)
  if (r->state == kRequestInactive) return seam::kErrRequest;
#endif
  if (r->state != kRequestActive) return seam::kSuccess;  // completed: too late, as natively
  return error_out(MPI_Cancel(real_request(*request)));
}

int lower_MPI_Test_cancelled(const seam::Status* status, int* flag) {
  *flag = status->cancelled;
  return seam::kSuccess;
}

int lower_MPI_Grequest_start(void* callbacks, Vid* request) {
  *request = kNullRequest;
  const AdoptedRequestPlace place;
  if (!place) return seam::kErrIntern;
  MPI_Request real = MPI_REQUEST_NULL;
  const int code = MPI_Grequest_start(query, released, cancelled, callbacks, &real);
  if (code != MPI_SUCCESS) return error_out(code);
  *request = adopt_request(real, seam::kFn_MPI_Grequest_start);
  return seam::kSuccess;
}

// The program may have freed the request before; it keeps its index for this call.
int lower_MPI_Grequest_complete(Vid request) {
  if (!is_request(request)) return seam::kErrRequest;
  RequestRecord* r = request_record(request);
  if (r->maker != seam::kFn_MPI_Grequest_start) return seam::kErrRequest;
  // Read before the call: during it another thread may complete the request and its record may be reused.
  bool orphan;
  {
    const handles::SpinGuard guard(structure_lock, multiple);
    if (r->ended) return seam::kErrRequest;
    r->ended = 1;
    orphan = r->orphan != 0;
  }
  int code = MPI_Grequest_complete(mpi::request(request));
  if (code == MPI_SUCCESS && orphan) {
    code = MPI_Request_free(real_request(request));
    release_request(request);
  }
  return error_out(code);
}

}  // extern "C"

}  // namespace cropdl::mpi
