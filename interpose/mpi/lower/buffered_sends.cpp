// Buffered sends: copied to the heap and accounted against the program's attached buffer, so that a cut finds
// them like other sends. LH, LH FS base, threads of the program.
#include <climits>

#include "interpose/mpi/lower/messages.h"
#include "lower_functions.h"

namespace cropdl::mpi {

int pack(const void* buffer, int count, Vid type, Vid comm, void** copy, int* bytes) {
  int size = 0;
  MPI_Count element = 0;
  int code = MPI_Type_size_x(datatype(type), &element);
  if (code != MPI_SUCCESS) return code;
  if (count > 0 && element > INT_MAX / count) return MPI_ERR_COUNT;
  code = MPI_Pack_size(count, datatype(type), mpi::comm(comm), &size);
  if (code != MPI_SUCCESS) return code;
  *copy = handles::heap_allocate(static_cast<size_t>(size) + 1);
  if (!*copy) return MPI_ERR_NO_MEM;
  *bytes = 0;
  code = MPI_Pack(buffer, count, datatype(type), *copy, size, bytes, mpi::comm(comm));
  if (code != MPI_SUCCESS) handles::heap_free(*copy);
  return code;
}

// Overhead per message: the smaller of the MPIs' MPI_BSEND_OVERHEAD (MPICH 96, Open MPI 128), since the
// program sized its buffer with its own.
constexpr uint64_t kBsendOverhead = 96;

// Guards the accounts, and serializes tests of buffered sends.
static handles::SpinLock bsend_lock;

// Completes buffered sends, which are records without a handle, and returns their room. Under bsend_lock.
static void reap_buffered() {
  if (!state->bsend.used) return;
  uint64_t used = 0;
  for (RequestRecord& r : all_requests()) {
    if (__atomic_load_n(&r.state, __ATOMIC_ACQUIRE) != kRequestActive) continue;
    if (r.kind != kSendRequest || !r.orphan) continue;
    const Vid v = vid_of(r);
    if (test_request(v, &r)) {
      release_request(v);
    } else {
      used += r.more[0];
    }
  }
  state->bsend.used = used;
}

constexpr uint32_t kReapEvery = 1024;

static int buffered_send(const void* buffer, int count, Vid type, int dest, int tag, Vid comm,
                         uint32_t maker) {
  if (dest == seam::kProcNull) return seam::kSuccess;
  void* copy = nullptr;
  int bytes = 0;
  int code = pack(buffer, count, type, comm, &copy, &bytes);
  if (code != MPI_SUCCESS) return error_out(code);
  const uint64_t room = static_cast<uint64_t>(bytes) + kBsendOverhead;
  handles::SpinGuard guard(bsend_lock, multiple);
  // Reaps every kReapEvery sends even if there is room, because each send also uses a record.
  static uint32_t sent = 0;
  if (state->bsend.used + room > state->bsend.size || ++sent % kReapEvery == 0) reap_buffered();
  if (state->bsend.used + room > state->bsend.size) {
    handles::heap_free(copy);
    return seam::kErrBuffer;
  }
  RequestPlace place;
  MPI_Request real = MPI_REQUEST_NULL;
  const int result =
      place ? error_out(begin_to_send(copy, bytes, MPI_PACKED, dest, tag, comm, &real)) : seam::kErrIntern;
  if (result != seam::kSuccess) {
    handles::heap_free(copy);
    return result;
  }
  const Vid v = place.take({kSendRequest, maker, copy, bytes, seam::kVid_MPI_PACKED, dest, tag, comm}, real);
  RequestRecord* r = request_record(v);
  r->owned = reinterpret_cast<uint64_t>(copy);
  r->orphan = 1;
  r->more[0] = room;
  state->bsend.used += room;
  return seam::kSuccess;
}

extern "C" {

int lower_MPI_Bsend(const void* buffer, int count, Vid type, int dest, int tag, Vid comm) {
  return buffered_send(buffer, count, type, dest, tag, comm, seam::kFn_MPI_Bsend);
}
int lower_MPI_Ibsend(const void* buffer, int count, Vid type, int dest, int tag, Vid comm, Vid* request) {
  *request = kNullRequest;
  RequestPlace place;
  if (!place) return seam::kErrIntern;
  const int result = buffered_send(buffer, count, type, dest, tag, comm, seam::kFn_MPI_Ibsend);
  if (result != seam::kSuccess) return result;
  *request = place.take({kSendRequest, seam::kFn_MPI_Ibsend, buffer, count, type, dest, tag, comm},
                        MPI_REQUEST_NULL);
  finish_request_with(request_record(*request), empty_status());
  return seam::kSuccess;
}

int lower_MPI_Buffer_attach(void* buffer, int size) {
  if (state->bsend.buffer || size < 0) return seam::kErrBuffer;
  state->bsend = {reinterpret_cast<uint64_t>(buffer), static_cast<uint64_t>(size), 0};
  return seam::kSuccess;
}

int lower_MPI_Buffer_detach(void* buffer, int* size) {
#if defined(OPEN_MPI)  // MPICH returns that there is none
  if (!state->bsend.buffer) return seam::kErrBuffer;
#endif
  for (Spin spin;; spin.turn()) {
    {
      handles::SpinGuard guard(bsend_lock, multiple);
      reap_buffered();
      if (!state->bsend.used) break;
    }
    if (stop_wanted()) return seam::kAgain;
  }
  *static_cast<void**>(buffer) = reinterpret_cast<void*>(state->bsend.buffer);
  *size = static_cast<int>(state->bsend.size);
  state->bsend = {};
  return seam::kSuccess;
}

}  // extern "C"

}  // namespace cropdl::mpi
