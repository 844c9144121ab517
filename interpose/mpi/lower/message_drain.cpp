#include "interpose/mpi/lower/message_drain.h"

#include <algorithm>

#include "base/caught.h"
#include "interpose/mpi/lower/messages.h"

namespace cropdl::mpi {

static bool test_own_requests() {
  bool all_done = true;
  for (RequestRecord& r : all_requests()) {
    if (r.state != kRequestActive || without_recipe(&r)) continue;
    const Vid v = vid_of(r);
    if (!test_request(v, &r)) {
      // A receive may stay pending. All else completes: the other ranks are stopped and progress their part.
      if (!receives(&r) || r.matched) all_done = false;
    } else if (r.orphan) {
      free_inactive(v);
      release_request(v);
    }
  }
  return all_done;
}

const char* const kNoMemoryToDrain = "this rank has no memory left to receive the messages under way";
const char* const kFailedToDrain = "a message under way could not be received: the MPI reports an error";

void MessageDrain::complete(const InFlight& f) {
  f.message->complete = 1;
  message_came({f.comm, f.message->source, f.message->tag});
}

void MessageDrain::wait_for(DrainedMessage* m) {
  for (Spin spin;; spin.turn()) {
    handles::SpinGuard guard(lock_, multiple);
    const auto f = std::ranges::find(in_flight_, m, &InFlight::message);
    if (f == in_flight_.end()) return;
    int flag = 0;
    if (MPI_Test(&f->request, &flag, MPI_STATUS_IGNORE) == MPI_SUCCESS && !flag) continue;
    complete(*f);
    in_flight_.erase(f);
    return;
  }
}

DrainedMessage* MessageDrain::place_for(Vid comm, const seam::Status& status) {
  // So that start_taking() cannot fail for lack of memory once it has received the message.
  const Status reserved = caught([this] {
    if (in_flight_.size() == in_flight_.capacity()) in_flight_.reserve(2 * in_flight_.size() + 16);
  });
  if (!reserved) {
    trouble_ = kNoMemoryToDrain;
    return nullptr;
  }
  auto* m = static_cast<DrainedMessage*>(
      handles::heap_allocate(sizeof(DrainedMessage) + static_cast<size_t>(status.bytes)));
  if (!m) {
    trouble_ = "messages under way do not fit into the persistent heap";
    return nullptr;
  }
  m->comm = comm;
  m->source = status.source;
  m->tag = status.tag;
  m->bytes = status.bytes;
  return m;
}

// Receives a message into `m`. On failure, frees `m` and returns false.
bool MessageDrain::start_taking(MPI_Message* real, DrainedMessage* m, CommRecord* comm) {
  MPI_Request request = MPI_REQUEST_NULL;
  if (!ready_to_deliver() || receive_bytes(real, m->data(), m->bytes, &request) != MPI_SUCCESS) {
    trouble_ = kFailedToDrain;
    handles::heap_free(m);
    return false;
  }
  in_flight_.push_back({request, m, comm});
  return true;
}

// Receives messages that the program has matched and not received; their handles then stand for the drained
// copy. Size and tag come from new_message, because the MPI gives them only once.
void MessageDrain::take_matched() {
  for (handles::Handle h : tables->in_order(static_cast<uint32_t>(Kind::kMessage))) {
    handles::Slot* s = tables->slot(h);
    if (s->state != handles::kLive || s->owner[0] || !s->recipe) continue;
    const auto* recipe = reinterpret_cast<const handles::Recipe*>(s->recipe);
    const auto* status = static_cast<const seam::Status*>(recipe->payload());
    MPI_Message real = message(h);
    DrainedMessage* m = place_for(static_cast<Vid>(s->owner[1]), *status);
    if (!m || !start_taking(&real, m, record_at(s->owner[2]))) return;
    s->owner[0] = reinterpret_cast<uint64_t>(m);
    rebind_handle(h, to_word(MPI_MESSAGE_NULL));
  }
}

// Allocates first: a matched message must be received, or the program would lose it.
bool MessageDrain::take_arrived(Vid c) {
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
  append_drained(m);
  return true;
}

void MessageDrain::begin_early() {
  trouble_ = nullptr;
  probed_ = {seam::kVid_MPI_COMM_WORLD, seam::kVid_MPI_COMM_SELF};
  for (handles::Handle h : tables->in_order(static_cast<uint32_t>(Kind::kComm))) {
    const CommRecord* c = comm_record(h);
    if (c && c->members) probed_.push_back(h);
  }
}

void MessageDrain::step_early() {
  for (Vid c : probed_) {
    while (!trouble_ && take_arrived(c)) {
    }
  }
  std::erase_if(in_flight_, [](InFlight& f) {
    int flag = 0;
    MPI_Test(&f.request, &flag, MPI_STATUS_IGNORE);
    if (flag) complete(f);
    return flag != 0;
  });
}

void MessageDrain::begin(std::span<const uint64_t> expected_by_rank) {
  expected_.assign(expected_by_rank.begin(), expected_by_rank.end());
  begin_early();
}

bool MessageDrain::step() {
  take_matched();
  bool done = test_own_requests();
  step_early();
  const auto* received = reinterpret_cast<const uint64_t*>(state->received);
  for (size_t rank = 0; rank < expected_.size(); ++rank) done = done && received[rank] >= expected_[rank];
  test_freed_comms();
  return done && in_flight_.empty() && !trouble_;
}

}  // namespace cropdl::mpi
