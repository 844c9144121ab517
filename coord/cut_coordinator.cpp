// The coordinator's side of the agreement: requests, attempts and their phases. See cut.h. Pure; rank 0's
// agent thread (LH FS base). If memory runs out within a step, its orders are lost: the control plane ends
// then, and so each rank continues (agent.cpp, go_on_without_checkpoints).
#include <algorithm>
#include <utility>

#include "base/format.h"
#include "base/time.h"
#include "base/words.h"
#include "coord/cut.h"

namespace cropdl::coord {

Coordinator::Coordinator(uint32_t ranks, CutLimits limits) : limits_(limits), slots_(ranks) {}

bool Coordinator::request(int64_t now, Actions* out, bool by_user) {
  if (busy()) return false;
  by_user_ = by_user;
  tries_ = 0;
  held_ = 0;
  end_status_ = 0;
  start(now, out);
  return true;
}

void Coordinator::withdraw(const std::string& why, int64_t now, Actions* out) {
  if (!busy() || version_begun_) return;  // the version is about to be written
  fail("checkpoint given up: " + why, now, out);
}

// A rank that has ended refuses the request. It waits, the program running, for starting ranks and for the
// removal of a discarded version.
void Coordinator::start(int64_t now, Actions* out) {
  bool all_here = true;
  for (uint32_t r = 0; r < slots_.size(); ++r) {
    if (!slots_[r].gone.empty())
      return fail(formatted("checkpoint refused: {} {}", rank_name(r), slots_[r].gone), now, out);
    all_here = all_here && slots_[r].joined;
  }
  if (all_here && !discarding_) return begin_attempt(now, out);
  if (stage_ != Stage::kJoining) {
    stage_ = Stage::kJoining;
    started_ = now;
  }
}

void Coordinator::begin_attempt(int64_t now, Actions* out) {
  stage_ = Stage::kHolding;
  ++attempt_;
  ++tries_;
  revision_ = 0;
  targets_.clear();
  drain_revision_ = 0;
  raises_ = 0;
  version_begun_ = false;
  failure_.clear();
  awaited_.clear();
  ends_.clear();
  patience_ = stop_told_ = stopped_at_ = write_told_ = 0;
  started_ = bound_from_ = raised_ = last_motion_ = last_drains_ = now;
  RankSlot anew;
  anew.joined = true;  // all have, and none is gone: start()
  anew.sent.assign(slots_.size(), 0);
  anew.expected = anew.sent;
  slots_.assign(slots_.size(), anew);
  broadcast(Hold{attempt_}, out);
}

void Coordinator::joined(uint32_t rank, int64_t now, Actions* out) {
  slots_[rank].joined = true;
  slots_[rank].gone.clear();
  if (stage_ == Stage::kJoining) start(now, out);
}

void Coordinator::lost(uint32_t rank, const std::string& why, int64_t now, Actions* out) {
  RankSlot& s = slots_[rank];
  if (!s.gone.empty()) return;
  s.gone = why;
  fail_after_writes(formatted("checkpoint refused: {} {}", rank_name(rank), why), now, out);
}

void Coordinator::fail_after_writes(const std::string& line, int64_t now, Actions* out) {
  if (!busy() || stage_ == Stage::kPublishing) return;  // all images are complete
  if (stage_ != Stage::kWriting) return fail(line, now, out);
  if (failure_.empty()) failure_ = line;
  consider_publish(now, out);
}

// A rank stopped mid-write later finishes the discarded image, then handles Resume. No version begins before.
void Coordinator::stands_still(uint32_t rank, const std::string& why, int64_t now, Actions* out) {
  RankSlot& s = slots_[rank];
  if (!s.gone.empty() || (stage_ == Stage::kWriting && std::exchange(s.write_over, true))) return;
  fail_after_writes(formatted("checkpoint refused: {} {}", rank_name(rank), why), now, out);
}

void Coordinator::receive(uint32_t rank, const Report& report, int64_t now, Actions* out) {
  std::visit(
      [&](const auto& m) {
        if (m.attempt == attempt_) on(rank, m, now, out);
      },
      report);
  if (stopped_at_ == 0 && stage_ == Stage::kStopping && all_stopped()) stopped_at_ = now;
}

void Coordinator::on(uint32_t rank, const StatusReport& m, int64_t now, Actions* out) {
  if (stage_ != Stage::kHolding) return;
  if (!m.status.refusal.empty())
    return fail(formatted("checkpoint refused: {}: {}", rank_name(rank), m.status.refusal), now, out,
                m.status.starting);
  RankSlot& s = slots_[rank];
  const bool was_behind = s.reported && s.behind;
  const bool changed = !(s.status == m.status);
  s.reported = true;
  s.revision = m.revision;
  s.waited = m.waited;
  s.reported_at = now;
  if (changed) {
    s.status = m.status;
    compare(&s);
  }
  if (changed && (was_behind || s.behind)) last_motion_ = now;
  look_for_awaited(now);
  if (revision_ == 0) {
    if (!std::ranges::all_of(slots_, &RankSlot::reported)) return;
    for (const RankSlot& slot : slots_)
      for (const CollectiveCount& c : slot.status.counts) {
        uint64_t& target = targets_[c.comm];
        target = std::max(target, c.begun);
      }
    // A last version has little time, so do not wait for the end of an iteration.
    if (tries_ == 1 && end_status_ == 0) predict();
    raised_ = last_motion_ = now;
    return send_targets(out);
  }
  // A count of kAborted exceeds all targets that the other ranks know.
  bool risen = false;
  for (const CollectiveCount& c : m.status.counts)
    if (c.begun >= kAborted && targets_[c.comm] < c.begun) {
      targets_[c.comm] = c.begun;
      risen = true;
    }
  if (risen) return send_targets(out);
  if (!all_current() || std::ranges::any_of(slots_, &RankSlot::behind)) return;
  stage_ = Stage::kStopping;
  stop_told_ = last_drains_ = now;
  broadcast(Stop{attempt_}, out);
}

void Coordinator::on(uint32_t rank, const Sent& m, int64_t now, Actions* out) {
  if (stage_ != Stage::kStopping) return;
  RankSlot& s = slots_[rank];
  std::vector<uint64_t> sent(slots_.size());
  for (const PeerCount& p : m.sent)
    if (p.world_rank < slots_.size()) sent[p.world_rank] = p.messages;
  for (uint32_t to = 0; to < slots_.size(); ++to) {
    RankSlot& receiver = slots_[to];
    const uint64_t expected = receiver.expected[rank];
    receiver.unexpected += static_cast<uint32_t>(sent[to] != expected);
    receiver.unexpected -= static_cast<uint32_t>(s.sent[to] != expected);
  }
  s.sent = std::move(sent);
  s.stopped = m.stopped;
  s.waited = m.waited;
  const bool examined = someone_examines();
  s.examining = m.examining;
  if (examined && !someone_examines()) bound_from_ = now;
  if (all_stopped() || now >= last_drains_ + limits_.interim_drain_after) send_drains(now, out);
  consider_write(now, out);
}

bool Coordinator::someone_examines() const { return std::ranges::any_of(slots_, &RankSlot::examining); }

bool Coordinator::all_stopped() const { return std::ranges::all_of(slots_, &RankSlot::stopped); }

// Sends each stopped rank its expected messages, if changed. Counts are final only when all ranks have
// stopped, but a rank may be unable to stop until its receiver takes the message that it is sending.
void Coordinator::send_drains(int64_t now, Actions* out) {
  last_drains_ = now;
  uint64_t revision = 0;
  for (uint32_t r = 0; r < slots_.size(); ++r) {
    RankSlot& s = slots_[r];
    if (!s.stopped || (s.drain_revision != 0 && s.unexpected == 0)) continue;
    if (revision == 0) revision = ++drain_revision_;
    s.drain_revision = revision;
    s.unexpected = 0;
    Drain order{attempt_, revision, {}};
    for (uint32_t from = 0; from < slots_.size(); ++from) {
      s.expected[from] = slots_[from].sent[r];
      if (s.expected[from] != 0) order.expected.push_back({from, s.expected[from]});
    }
    out->push_back(SendOrder{r, order});
  }
}

void Coordinator::on(uint32_t rank, const Drained& m, int64_t now, Actions* out) {
  if (stage_ != Stage::kStopping) return;
  slots_[rank].drained_revision = m.revision;
  consider_write(now, out);
}

void Coordinator::consider_write(int64_t now, Actions* out) {
  if (version_begun_ || !all_stopped()) return;
  for (const RankSlot& s : slots_)
    if (s.drain_revision == 0 || s.drained_revision != s.drain_revision) return;
  // Not before: a rank whose library reports a failed communicator refuses with the library's words.
  if (const std::string line = incomplete_communicator(); !line.empty()) return fail(line, now, out);
  version_begun_ = true;
  out->push_back(BeginVersion{});
}

void Coordinator::version_begun(const std::string& directory, int64_t now, Actions* out) {
  // The attempt may have ended while the directory was made; end_attempt() has requested its removal.
  if (stage_ != Stage::kStopping || !version_begun_) return;
  stage_ = Stage::kWriting;
  write_told_ = now;
  broadcast(Write{attempt_, directory}, out);
  consider_publish(now, out);
}

void Coordinator::on(uint32_t rank, const Written& m, int64_t now, Actions* out) {
  if (stage_ != Stage::kWriting) return;
  slots_[rank].write_over = true;
  slots_[rank].image = m.image;
  consider_publish(now, out);
}

void Coordinator::on(uint32_t rank, const Refused& m, int64_t now, Actions* out) {
  if (stage_ != Stage::kStopping) return;  // another rank's refusal has ended the attempt
  fail(formatted("checkpoint refused: {}: {}", rank_name(rank), m.reason), now, out);
}

void Coordinator::on(uint32_t rank, const Failed& m, int64_t now, Actions* out) {
  if (phase() == Phase::kIdle) return;
  if (stage_ == Stage::kWriting) slots_[rank].write_over = true;
  fail_after_writes(formatted("checkpoint failed: {}: {}", rank_name(rank), m.reason), now, out);
}

// Waits for every write, even if another failed: a rank cannot resume while its memory is being read.
void Coordinator::consider_publish(int64_t now, Actions* out) {
  for (const RankSlot& s : slots_)
    if (!s.write_over && s.gone.empty()) return;
  if (!failure_.empty()) return fail(failure_, now, out);
  stage_ = Stage::kPublishing;
  NewVersion version{{},
                     in_seconds(now - stop_told_),
                     in_seconds(stopped_at_ - stop_told_),
                     in_seconds(write_told_ - stopped_at_),
                     in_seconds(longest_wait(now))};
  for (const RankSlot& s : slots_) version.images.push_back(s.image);
  out->push_back(Publish{std::move(version)});
}

void Coordinator::published(uint64_t version, int64_t now, Actions* out) {
  if (stage_ != Stage::kPublishing) return;
  Outcome outcome{.published = true, .version = version, .stall_seconds = in_seconds(now - stop_told_)};
  for (const RankSlot& s : slots_) outcome.bytes += s.image.bytes;
  version_begun_ = false;
  if (end_status_ == 0) end_attempt(now, out);
  finish(outcome, out);
  if (end_status_ != 0) broadcast(End{attempt_, end_status_}, out);
}

void Coordinator::sink_failed(const std::string& reason, int64_t now, Actions* out) {
  if (version_begun_) fail("checkpoint failed: " + reason, now, out);
}

void Coordinator::discarded(int64_t now, Actions* out) {
  discarding_ = false;
  if (stage_ == Stage::kJoining) start(now, out);
}

void Coordinator::tick(int64_t now, Actions* out) {
  switch (stage_) {
    case Stage::kIdle:
    case Stage::kWriting:
    case Stage::kPublishing:
      return;
    case Stage::kJoining:
      if (now < started_ + join_bound()) return;
      for (uint32_t r = 0; r < slots_.size(); ++r)
        if (!slots_[r].joined)
          return fail(formatted("checkpoint refused: {} has not joined yet: its MPI is only just starting, "
                                "or it was started without cropdl-run",
                                rank_name(r)),
                      now, out, true);
      return;
    case Stage::kPausing:
      if (now >= started_ + limits_.retry_pause) start(now, out);
      return;
    case Stage::kHolding:
      if (now >= attempt_ends()) return give_up_attempt(now, out);
      if (const auto at = raise_at(); at && now >= *at) raise(now, out);
      return;
    case Stage::kStopping:
      if (version_begun_) return;  // the directory is being made: no way back
      if (now >= attempt_ends()) return give_up_attempt(now, out);
      if (now >= last_drains_ + limits_.interim_drain_after) send_drains(now, out);
      return;
  }
}

std::optional<int64_t> Coordinator::deadline() const {
  switch (stage_) {
    case Stage::kIdle:
    case Stage::kWriting:
    case Stage::kPublishing:
      return std::nullopt;
    case Stage::kJoining:
      if (std::ranges::all_of(slots_, &RankSlot::joined)) return std::nullopt;  // waits for discarded()
      return started_ + join_bound();
    case Stage::kPausing:
      return started_ + limits_.retry_pause;
    case Stage::kHolding: {
      const int64_t bound = attempt_ends();
      return std::min(bound, raise_at().value_or(bound));
    }
    case Stage::kStopping: {
      if (version_begun_) return std::nullopt;
      const int64_t bound = attempt_ends();
      for (const RankSlot& s : slots_)
        if (s.stopped && (s.drain_revision == 0 || s.unexpected != 0))
          return std::min(bound, last_drains_ + limits_.interim_drain_after);
      return bound;
    }
  }
  return std::nullopt;
}

void Coordinator::give_up_attempt(int64_t now, Actions* out) {
  if (tries_ < limits_.attempts) {
    missed_ = what_is_missing();
    end_attempt(now, out);
    stage_ = Stage::kPausing;
    started_ = now;
    return;
  }
  fail(formatted("checkpoint given up after {} of {:.3g} s: {}; try again later", counted(tries_, "attempt"),
                 in_seconds(limits_.attempt_bound), what_is_missing()),
       now, out);
}

void Coordinator::fail(const std::string& line, int64_t now, Actions* out, bool too_early) {
  if (phase() != Phase::kIdle) end_attempt(now, out);
  finish({.too_early = too_early, .line = line}, out);
}

void Coordinator::end_attempt(int64_t now, Actions* out) {
  // Running to the end of an iteration costs the ranks nothing.
  if (runs_to_ends())
    held_ += longest_wait(now) + (stop_told_ != 0 ? now - stop_told_ : 0);
  else
    held_ += now - started_;
  broadcast(Resume{attempt_}, out);
  if (!version_begun_) return;
  version_begun_ = false;
  discarding_ = true;
  out->push_back(Discard{});
}

void Coordinator::finish(Outcome outcome, Actions* out) {
  outcome.attempts = tries_;
  outcome.held_seconds = in_seconds(held_);
  stage_ = Stage::kIdle;
  failure_.clear();
  out->push_back(Finished{outcome});
}

void Coordinator::broadcast(const Order& order, Actions* out) {
  for (uint32_t r = 0; r < slots_.size(); ++r)
    if (slots_[r].joined && slots_[r].gone.empty()) out->push_back(SendOrder{r, order});
}

}  // namespace cropdl::coord
