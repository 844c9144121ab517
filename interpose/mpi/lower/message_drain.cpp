// The drain: receives messages under way into the persistent heap, and delivers them later as if they had
// just arrived. LH, LH FS base; the drain on the parked main thread, the rest on threads of the program.
//
// It takes only messages that no posted receive has matched (MPI_Improbe sees no others), in the MPI's
// matching order. A receive that looks here first and in the network second keeps that order.
#include <algorithm>
#include <atomic>
#include <climits>

#include "base/caught.h"
#include "interpose/mpi/lower/messages.h"
#include "interpose/mpi/lower/point_to_point.h"
#include "interpose/mpi/lower/state.h"

namespace cropdl::mpi {
namespace {

struct InFlight {
  MPI_Request request;
  DrainedMessage* message;
  CommRecord* comm;
};
std::vector<InFlight> in_flight;  // in the LH; empty when a cut is complete
handles::SpinLock in_flight_lock;
std::vector<uint64_t> expected;  // messages sent to this rank, per world rank
std::vector<Vid> probed;         // communicators whose messages are counted
std::atomic<const char*> trouble;
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

void complete(InFlight& f) {
  f.message->complete = 1;
  message_came({f.comm, f.message->source, f.message->tag});
}

// After an abandoned checkpoint, a receive may match a message that the drain is still receiving.
void wait_for(DrainedMessage* m) {
  for (Spin spin;; spin.turn()) {
    handles::SpinGuard guard(in_flight_lock, multiple);
    const auto f =
        std::find_if(in_flight.begin(), in_flight.end(), [m](const InFlight& g) { return g.message == m; });
    if (f == in_flight.end()) return;
    int flag = 0;
    if (MPI_Test(&f->request, &flag, MPI_STATUS_IGNORE) == MPI_SUCCESS && !flag) continue;
    complete(*f);
    in_flight.erase(f);
    return;
  }
}

// Called before there is a message to deliver, hence on the parked main thread or before the program runs:
// otherwise a thread of the program might be duplicating MPI_COMM_SELF.
int make_self() {
  if (self != MPI_COMM_NULL) return MPI_SUCCESS;
  const int code = MPI_Comm_dup(MPI_COMM_SELF, &self);
  if (code == MPI_SUCCESS) MPI_Comm_set_errhandler(self, MPI_ERRORS_RETURN);
  return code;
}

// So that start_taking() cannot fail for lack of memory once it has received the message.
bool has_room_in_flight() {
  const Status reserved = caught([] {
    if (in_flight.size() == in_flight.capacity()) in_flight.reserve(2 * in_flight.size() + 16);
  });
  return static_cast<bool>(reserved);
}

DrainedMessage* place_for(Vid comm, const seam::Status& status) {
  if (!has_room_in_flight()) {
    trouble = kNoMemoryToDrain;
    return nullptr;
  }
  auto* m = static_cast<DrainedMessage*>(
      handles::heap_allocate(sizeof(DrainedMessage) + static_cast<size_t>(status.bytes)));
  if (!m) {
    trouble = "messages under way do not fit into the persistent heap";
    return nullptr;
  }
  m->comm = comm;
  m->source = status.source;
  m->tag = status.tag;
  m->bytes = status.bytes;
  return m;
}

// Receives a message into `m`. On failure, frees `m` and returns false.
bool start_taking(MPI_Message* real, DrainedMessage* m, CommRecord* comm) {
  MPI_Request request = MPI_REQUEST_NULL;
  int code = make_self();
  if (code == MPI_SUCCESS) code = receive_bytes(real, m->data(), m->bytes, &request);
  if (code != MPI_SUCCESS) {
    trouble = kFailedToDrain;
    handles::heap_free(m);
    return false;
  }
  in_flight.push_back({request, m, comm});
  return true;
}

void append(DrainedMessage* m) {
  const handles::SpinGuard guard(drained_lock, multiple);
  m->next = 0;
  if (state->drained_last) {
    reinterpret_cast<DrainedMessage*>(state->drained_last)->next = reinterpret_cast<uint64_t>(m);
  } else {
    state->drained = reinterpret_cast<uint64_t>(m);
  }
  state->drained_last = reinterpret_cast<uint64_t>(m);
}

// Receives messages that the program has matched and not received; their handles then stand for the drained
// copy. Size and tag come from new_message, because the MPI gives them only once.
void take_matched() {
  for (handles::Handle h : tables->in_order(static_cast<uint32_t>(Kind::kMessage))) {
    handles::Slot* s = tables->slot(h);
    if (s->state != handles::kLive || s->owner[0] || !s->recipe) continue;
    const auto* recipe = reinterpret_cast<const handles::Recipe*>(s->recipe);
    const auto* status = static_cast<const seam::Status*>(recipe->payload());
    MPI_Message real = message(h);
    DrainedMessage* m = place_for(static_cast<Vid>(s->owner[1]), *status);
    if (!m || !start_taking(&real, m, reinterpret_cast<CommRecord*>(s->owner[2]))) return;
    s->owner[0] = reinterpret_cast<uint64_t>(m);
    rebind_handle(h, to_word(MPI_MESSAGE_NULL));
  }
}

// Allocates first: a matched message must be received, or the program would lose it.
bool take_arrived(Vid c) {
  int flag = 0;
  MPI_Status s = no_message();
  if (MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm(c), &flag, &s) != MPI_SUCCESS || !flag) return false;
  seam::Status status;
  status_out(s, &status);
  DrainedMessage* m = place_for(c, status);
  if (!m) return false;
  MPI_Message real = MPI_MESSAGE_NULL;
  const bool matched = MPI_Improbe(s.MPI_SOURCE, s.MPI_TAG, comm(c), &flag, &real, &s) == MPI_SUCCESS && flag;
  if (!matched) handles::heap_free(m);
  if (!matched || !start_taking(&real, m, comm_record(c))) return false;
  append(m);
  return true;
}

bool test_own_requests() {
  bool all_done = true;
  for (uint32_t i = seam::kFirstDynamic; i < state->request_top; ++i) {
    RequestRecord* r = request_record(i);
    if (r->state != kRequestActive || without_recipe(r)) continue;
    const Vid v = seam::make_vid(Kind::kRequest, i);
    if (!test_request(v, r)) {
      // A receive may stay pending. Everything else completes: the other ranks are stopped and progress their
      // part.
      if ((r->kind != kReceiveRequest && r->kind != kPersistentReceive) || r->matched) all_done = false;
    } else if (r->orphan) {
      free_inactive(v);
      release_request(v);
    }
  }
  return all_done;
}

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

int deliver_drained(DrainedMessage* m, void* buffer, int count, Vid type, seam::Status* status) {
  if (!m->complete) wait_for(m);
  // A message to this process, so that the MPI unpacks the bytes into the program's datatype. CropDL
  // truncates it, because Open MPI 4.1 does not report truncation between a process and itself.
  MPI_Count element = 0;
  MPI_Type_size_x(datatype(type), &element);
  const int64_t room = count > 0 ? count * static_cast<int64_t>(element) : 0;
  const Bytes as(std::min(m->bytes, room));
  MPI_Request receive = MPI_REQUEST_NULL, send = MPI_REQUEST_NULL;
  MPI_Status s = no_message();
  // No MPI has fewer tags, and 0x8000 deliveries are never under way at once.
  const int tag = static_cast<int>(deliveries.fetch_add(1, std::memory_order_relaxed) & 0x7fff);
  int code = MPI_Irecv(buffer, count, datatype(type), 0, tag, self, &receive);
  if (code == MPI_SUCCESS) {
    MPI_Isend(m->data(), as.count, as.type, 0, tag, self, &send);
    code = MPI_Wait(&receive, &s);
    MPI_Wait(&send, MPI_STATUS_IGNORE);
    status_out(s, status);
  } else {
    *status = empty_status();
  }
  const bool truncated = code == MPI_SUCCESS && m->bytes > room;
#if defined(OPEN_MPI)
  // The status has the length of the message (ob1: recv_request_pml_complete). In MPICH it has what fits
  // between a process and itself, and otherwise nothing defined (MPIDI_UCX_recv_cmpl_cb).
  if (truncated) status->bytes = m->bytes;
#endif
  status->source = m->source;
  status->tag = m->tag;
  status->error = truncated ? seam::kErrTruncate : error_out(code);
  handles::heap_free(m);
  return status->error;
}

std::vector<DrainedMessage*> take_all_drained(Vid comm) {
  std::vector<DrainedMessage*> all;
  while (DrainedMessage* m = take_drained(comm, seam::kAnySource, seam::kAnyTag)) all.push_back(m);
  return all;
}

void drop_drained(std::span<DrainedMessage* const> messages) {
  for (DrainedMessage* m : messages) {
    if (!m->complete) wait_for(m);
    handles::heap_free(m);
  }
}

void early_drain_begin() {
  trouble = nullptr;
  probed.clear();
  for (Vid v : {seam::kVid_MPI_COMM_WORLD, seam::kVid_MPI_COMM_SELF}) probed.push_back(v);
  for (handles::Handle h : tables->in_order(static_cast<uint32_t>(Kind::kComm))) {
    const CommRecord* c = comm_record(h);
    if (c && c->members) probed.push_back(h);
  }
}

void early_drain_step() {
  for (Vid c : probed) {
    while (!trouble && take_arrived(c)) {
    }
  }
  std::erase_if(in_flight, [](InFlight& f) {
    int flag = 0;
    MPI_Test(&f.request, &flag, MPI_STATUS_IGNORE);
    if (flag) complete(f);
    return flag != 0;
  });
}

void drain_begin(std::span<const uint64_t> expected_by_rank) {
  expected.assign(expected_by_rank.begin(), expected_by_rank.end());
  early_drain_begin();
}

bool drain_step() {
  take_matched();
  bool done = test_own_requests();
  early_drain_step();
  const auto* received = reinterpret_cast<const uint64_t*>(state->received);
  for (size_t rank = 0; rank < expected.size(); ++rank) done = done && received[rank] >= expected[rank];
  test_freed_comms();
  return done && in_flight.empty() && !trouble;
}

const char* const kNoMemoryToDrain = "this rank has no memory left to receive the messages under way";
const char* const kFailedToDrain = "a message under way could not be received: the MPI reports an error";

void set_drain_trouble(const char* why) { trouble = why; }
const char* drain_trouble() { return trouble; }
bool ready_to_deliver() { return make_self() == MPI_SUCCESS; }

}  // namespace cropdl::mpi
