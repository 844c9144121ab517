#include "interpose/mpi/lower/message_drain.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>

#include "base/caught.h"
#include "interpose/mpi/lower/messages.h"

namespace cropdl::mpi {

const char* const kNoMemoryToDrain = "this rank has no memory left to receive the messages under way";
const char* const kFailedToDrain = "a message under way could not be received: the MPI reports an error";

namespace {

struct InFlight {
  MPI_Request request;
  DrainedMessage* message;
  CommRecord* comm;
};

// Never destroyed: the thread of the early drain uses it also while the process ends.
struct Drain {
  handles::SpinLock lock;                  // of in_flight, among threads in wait_for_drained()
  std::vector<InFlight> in_flight;         // empty when a cut is complete
  std::vector<coord::PeerCount> expected;  // messages sent to this rank
  std::vector<Vid> probed;                 // communicators whose messages are counted
  // The receives that may be parked, in the order of posting, each with its serial number. Kept for posting,
  // which follows a write that perhaps failed for lack of memory, and must not allocate.
  std::vector<std::pair<uint64_t, Vid>> receives;
  std::atomic<const char*> trouble{nullptr};
  // The early drain's thread holds it during each step, so end_early_drain() waits for the step's end.
  std::mutex early_step;
  std::condition_variable early_wake;
  bool early = false;  // under early_step
};
Drain& drain = *new Drain;

bool test_own_requests() {
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

void complete(const InFlight& f) {
  f.message->complete = 1;
  message_came({f.comm, f.message->source, f.message->tag});
}

DrainedMessage* place_for(Vid comm, const seam::Status& status) {
  // So that start_taking() cannot fail for lack of memory once it has received the message.
  const Status reserved = caught([] {
    if (drain.in_flight.size() == drain.in_flight.capacity())
      drain.in_flight.reserve(2 * drain.in_flight.size() + 16);
  });
  if (!reserved) {
    drain.trouble = kNoMemoryToDrain;
    return nullptr;
  }
  auto* m = static_cast<DrainedMessage*>(
      handles::heap_allocate(sizeof(DrainedMessage) + static_cast<size_t>(status.bytes)));
  if (!m) {
    drain.trouble = "messages under way do not fit into the persistent heap";
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
  if (!ready_to_deliver() || receive_bytes(real, m->data(), m->bytes, &request) != MPI_SUCCESS) {
    drain.trouble = kFailedToDrain;
    handles::heap_free(m);
    return false;
  }
  drain.in_flight.push_back({request, m, comm});
  return true;
}

// Receives messages that the program has matched and not received; their handles then stand for the drained
// copy. Size and tag are those of the recipe, because the MPI gives them only once.
void take_matched() {
  for (handles::Handle h : tables->in_order(static_cast<uint32_t>(Kind::kMessage))) {
    handles::Slot* s = tables->slot(h);
    const auto status = recipe_of<seam::Status>(h);
    if (s->state != handles::kLive || s->owner[0] || status.empty()) continue;
    MPI_Message real = message(h);
    DrainedMessage* m = place_for(static_cast<Vid>(s->owner[1]), status[0]);
    if (!m || !start_taking(&real, m, record_at(s->owner[2]))) return;
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
  append_drained(m);
  return true;
}

void take_all_arrived() {
  for (Vid c : drain.probed) {
    while (!drain.trouble && take_arrived(c)) {
    }
  }
  std::erase_if(drain.in_flight, [](InFlight& f) {
    int flag = 0;
    MPI_Test(&f.request, &flag, MPI_STATUS_IGNORE);
    if (flag) complete(f);
    return flag != 0;
  });
}

void begin_attempt() {
  drain.trouble = nullptr;
  drain.probed = {seam::kVid_MPI_COMM_WORLD, seam::kVid_MPI_COMM_SELF};
  for (handles::Handle h : tables->in_order(static_cast<uint32_t>(Kind::kComm))) {
    const CommRecord* c = comm_record(h);
    if (c && c->members) drain.probed.push_back(h);
  }
}

[[noreturn]] void drain_early() {
  // Between steps, as on a stopped rank (restart/session/rank.cpp).
  constexpr std::chrono::microseconds kNap{200};
  std::unique_lock lock(drain.early_step);
  for (;;) {
    drain.early_wake.wait(lock, [] { return drain.early; });
    set_float_modes(modes_of_sender.load(std::memory_order_relaxed));
    take_all_arrived();
    drain.early_wake.wait_for(lock, kNap);
  }
}

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
  drain.receives.clear();
  for (const RequestRecord& r : all_requests())
    if (r.state == kRequestParked || (with_pending && r.state == kRequestActive && receives(&r)))
      drain.receives.emplace_back(r.serial, vid_of(r));
  std::sort(drain.receives.begin(), drain.receives.end());
}

}  // namespace

void wait_for_drained(DrainedMessage* m) {
  for (Spin spin;; spin.turn()) {
    handles::SpinGuard guard(drain.lock, multiple);
    const auto f = std::ranges::find(drain.in_flight, m, &InFlight::message);
    if (f == drain.in_flight.end()) return;
    int flag = 0;
    if (MPI_Test(&f->request, &flag, MPI_STATUS_IGNORE) == MPI_SUCCESS && !flag) continue;
    complete(*f);
    drain.in_flight.erase(f);
    return;
  }
}

const char* drain_trouble() { return drain.trouble; }
void set_drain_trouble(const char* why) { drain.trouble = why; }

void begin_drain(std::span<const coord::PeerCount> from) {
  drain.expected.assign(from.begin(), from.end());
  begin_attempt();
}

bool drain_step() {
  take_matched();
  bool done = test_own_requests();
  take_all_arrived();
  const auto* received = reinterpret_cast<const uint64_t*>(state->received);
  for (const coord::PeerCount& p : drain.expected)
    if (p.world_rank < static_cast<uint32_t>(state->size))
      done = done && received[p.world_rank] >= p.messages;
  test_freed_comms();
  return done && drain.in_flight.empty() && !drain.trouble;
}

void start_early_drain() {
  if (!multiple) return;
  try {
    std::thread(drain_early).detach();
  } catch (const std::exception&) {  // no thread available for this user, or no memory
  }
}

void begin_early_drain() {
  const std::lock_guard lock(drain.early_step);
  begin_attempt();
  drain.early = true;
  drain.early_wake.notify_one();
}

void end_early_drain() {
  const std::lock_guard lock(drain.early_step);
  drain.early = false;
}

// The last receive first: if one cannot be cancelled, the earlier ones keep their places, and the later ones
// are posted again after it. (MPICH searches its list of all receives for each.)
int park_receives(uint32_t* maker) {
  list_receives(true);
  for (auto r = drain.receives.rbegin(); r != drain.receives.rend(); ++r) {
    const RequestRecord* record = request_record(r->second);
    if (record->state == kRequestParked) continue;  // in an earlier attempt that failed in the middle
    *maker = record->maker;
    if (const int code = take_back(r->second); code != MPI_SUCCESS) return code;
  }
  return MPI_SUCCESS;
}

int post_parked_receives() {
  int result = MPI_SUCCESS;
  for (const auto& [serial, v] : drain.receives) {
    if (request_record(v)->state != kRequestParked) continue;
    if (const int code = post_again(v); code != MPI_SUCCESS && result == MPI_SUCCESS) result = code;
  }
  drain.receives.clear();
  return result;
}

int post_receives_of_image() {
  list_receives(false);
  return post_parked_receives();
}

}  // namespace cropdl::mpi
