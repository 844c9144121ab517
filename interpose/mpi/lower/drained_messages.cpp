// Messages that a drain has received (message_drain.h): a list in the persistent heap, from which the program
// gets them as if they had just arrived. LH, LH FS base; threads of the program, unless stated otherwise.
#include <algorithm>
#include <atomic>
#include <climits>

#include "interpose/mpi/lower/message_drain.h"
#include "interpose/mpi/lower/messages.h"
#include "interpose/mpi/lower/state.h"

namespace cropdl::mpi {
namespace {

// For the process's life: later runs get their own.
handles::SpinLock drained_lock;
MPI_Comm self = MPI_COMM_NULL;  // CropDL's own, for deliveries
// Each delivery has its own tag, so that threads do not receive one another's.
std::atomic<uint32_t> deliveries;

// A datatype and a count for `bytes` bytes, which may exceed an int.
struct Bytes {
  explicit Bytes(int64_t bytes) : count(static_cast<int>(bytes)), type(MPI_BYTE) {
    if (bytes <= INT_MAX) return;
    constexpr int kChunk = 1 << 30;
    MPI_Datatype chunk = MPI_DATATYPE_NULL;
    MPI_Type_contiguous(kChunk, MPI_BYTE, &chunk);
    int lengths[2] = {static_cast<int>(bytes / kChunk), static_cast<int>(bytes % kChunk)};
    MPI_Aint displacements[2] = {0, static_cast<MPI_Aint>(bytes / kChunk) * kChunk};
    MPI_Datatype types[2] = {chunk, MPI_BYTE};
    MPI_Type_create_struct(2, lengths, displacements, types, &type);
    MPI_Type_commit(&type);
    MPI_Type_free(&chunk);
    count = 1;
  }
  ~Bytes() {
    if (type != MPI_BYTE) MPI_Type_free(&type);
  }
  Bytes(const Bytes&) = delete;
  Bytes& operator=(const Bytes&) = delete;
  int count;
  MPI_Datatype type;
};

// Returns the first message that matches, and removes it from the queue if `take`. Under drained_lock.
DrainedMessage* find(Vid comm, int source, int tag, bool take) {
  uint64_t* link = &state->drained;
  uint64_t before = 0;
  while (*link) {
    auto* m = reinterpret_cast<DrainedMessage*>(*link);
    if (m->comm == comm && (source == seam::kAnySource || source == m->source) &&
        (tag == seam::kAnyTag || tag == m->tag)) {
      if (take) {
        *link = m->next;
        if (!m->next) state->drained_last = before;
      }
      return m;
    }
    before = *link;
    link = &m->next;
  }
  return nullptr;
}

}  // namespace

bool ready_to_deliver() {
  if (self != MPI_COMM_NULL) return true;
  const bool made = MPI_Comm_dup(MPI_COMM_SELF, &self) == MPI_SUCCESS;
  if (made) MPI_Comm_set_errhandler(self, MPI_ERRORS_RETURN);
  return made;
}

void append_drained(DrainedMessage* m) {
  const handles::SpinGuard guard(drained_lock, multiple);
  m->next = 0;
  auto* last = reinterpret_cast<DrainedMessage*>(state->drained_last);
  (last ? last->next : state->drained) = reinterpret_cast<uint64_t>(m);
  state->drained_last = reinterpret_cast<uint64_t>(m);
}

int receive_bytes(MPI_Message* message, void* to, int64_t bytes, MPI_Request* request) {
  const Bytes as(bytes);
  return MPI_Imrecv(to, as.count, as.type, message, request);
}

bool probe_drained(Vid comm, int source, int tag, seam::Status* status) {
  handles::SpinGuard guard(drained_lock, multiple);
  const DrainedMessage* m = find(comm, source, tag, false);
  if (m && status) *status = status_of(m);
  return m != nullptr;
}

DrainedMessage* take_drained(Vid comm, int source, int tag) {
  handles::SpinGuard guard(drained_lock, multiple);
  return find(comm, source, tag, true);
}

seam::Status status_of(const DrainedMessage* m) { return {m->source, m->tag, seam::kSuccess, 0, m->bytes}; }

// Receives nothing, with the same arguments.
int check_receive(void* buffer, int count, Vid type) {
  MPI_Request over = MPI_REQUEST_NULL;
  const int code = MPI_Irecv(buffer, count, datatype(type), MPI_PROC_NULL, 0, self, &over);
  return code == MPI_SUCCESS ? MPI_Wait(&over, MPI_STATUS_IGNORE) : code;
}

seam::Status deliver_drained(DrainedMessage* m, void* buffer, int count, Vid type) {
  if (!m->complete) wait_for_drained(m);
  // A message to this process, so that the MPI unpacks the bytes into the program's datatype. CropDL
  // truncates it, because Open MPI 4.1 does not report truncation between a process and itself.
  MPI_Count element = 0;
  MPI_Type_size_x(datatype(type), &element);
  const int64_t room = count > 0 ? count * static_cast<int64_t>(element) : 0;
  const Bytes as(std::min(m->bytes, room));
  MPI_Request receive = MPI_REQUEST_NULL, send = MPI_REQUEST_NULL;
  seam::Status status = empty_status();
  // No MPI has fewer tags, and 0x8000 deliveries are never under way at once.
  const int tag = static_cast<int>(deliveries.fetch_add(1, std::memory_order_relaxed) & 0x7fff);
  int code = MPI_Irecv(buffer, count, datatype(type), 0, tag, self, &receive);
  if (code == MPI_SUCCESS) {
    MPI_Status s = no_message();
    MPI_Isend(m->data(), as.count, as.type, 0, tag, self, &send);
    code = MPI_Wait(&receive, &s);
    MPI_Wait(&send, MPI_STATUS_IGNORE);
    status_out(s, &status);
  }
  const bool truncated = code == MPI_SUCCESS && m->bytes > room;
#if defined(OPEN_MPI)
  // The status has the length of the message (ob1: recv_request_pml_complete). In MPICH it has what fits
  // between a process and itself, and otherwise nothing defined (MPIDI_UCX_recv_cmpl_cb).
  if (truncated) status.bytes = m->bytes;
#endif
  status.source = m->source;
  status.tag = m->tag;
  status.error = truncated ? seam::kErrTruncate : error_out(code);
  handles::heap_free(m);
  return status;
}

std::vector<DrainedMessage*> take_all_drained(Vid comm) {
  std::vector<DrainedMessage*> all;
  while (DrainedMessage* m = take_drained(comm, seam::kAnySource, seam::kAnyTag)) all.push_back(m);
  return all;
}

void drop_drained(std::span<DrainedMessage* const> messages) {
  for (DrainedMessage* m : messages) {
    if (!m->complete) wait_for_drained(m);
    handles::heap_free(m);
  }
}

}  // namespace cropdl::mpi
