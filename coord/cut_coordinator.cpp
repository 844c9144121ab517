// The coordinator's side of the agreement. See cut.h. Pure; rank 0's agent thread (LH FS base).
#include <algorithm>
#include <cstdio>

#include "base/format.h"
#include "coord/cut.h"

namespace cropdl::coord {

namespace {

std::string rank_name(uint32_t rank) { return formatted("rank {}", rank); }

uint64_t begun_on(const RankStatus& s, uint64_t comm) {
  for (const CollectiveCount& c : s.counts)
    if (c.comm == comm) return c.begun;
  return 0;
}

}  // namespace

const char* phase_name(Phase phase) {
  switch (phase) {
    case Phase::kIdle:
      return "idle";
    case Phase::kHolding:
      return "holding";
    case Phase::kStopping:
      return "stopping";
    case Phase::kDraining:
      return "draining";
    case Phase::kWriting:
      return "writing";
    case Phase::kPublishing:
      return "publishing";
  }
  return "idle";
}

Coordinator::Coordinator(uint32_t ranks, CutLimits limits) : limits_(limits), slots_(ranks) {}

bool Coordinator::request(int64_t now, Actions* out) {
  if (busy()) return false;
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
  patience_ = stop_told_ = 0;
  started_ = raised_ = last_motion_ = last_drains_ = now;
  for (RankSlot& s : slots_) {
    s.reported = s.stopped = s.write_over = false;
    s.revision = s.drain_revision = s.drained_revision = 0;
    s.status = {};
    s.sent.assign(slots_.size(), 0);
    s.expected.assign(slots_.size(), 0);
    s.image = {};
  }
  broadcast(Hold{attempt_}, out);
}

void Coordinator::joined(uint32_t rank, int64_t now, Actions* out) {
  slots_[rank].joined = true;
  if (stage_ == Stage::kJoining) start(now, out);
}

void Coordinator::lost(uint32_t rank, const std::string& why, int64_t now, Actions* out) {
  RankSlot& s = slots_[rank];
  if (!s.gone.empty()) return;
  s.gone = why;
  const std::string line = formatted("checkpoint refused: {} {}", rank_name(rank), why);
  switch (stage_) {
    case Stage::kIdle:
    case Stage::kPublishing:  // all images are complete
      return;
    case Stage::kWriting:
      if (failure_.empty()) failure_ = line;
      return consider_publish(now, out);
    default:
      return fail(line, now, out);
  }
}

// A rank stopped mid-write finishes the discarded image when its process continues, then handles the queued
// Resume. No other version begins before.
void Coordinator::stands_still(uint32_t rank, const std::string& why, int64_t now, Actions* out) {
  RankSlot& s = slots_[rank];
  const std::string line = formatted("checkpoint refused: {} {}", rank_name(rank), why);
  if (!busy() || stage_ == Stage::kPublishing || !s.gone.empty()) return;
  if (stage_ != Stage::kWriting) return fail(line, now, out);
  if (s.write_over) return;
  s.write_over = true;
  if (failure_.empty()) failure_ = line;
  consider_publish(now, out);
}

void Coordinator::receive(uint32_t rank, const Report& report, int64_t now, Actions* out) {
  std::visit(
      [&](const auto& m) {
        if (m.attempt == attempt_) on(rank, m, now, out);
      },
      report);
}

bool Coordinator::behind(const RankSlot& slot) const {
  if (!slot.status.inside.empty()) return true;
  for (const CollectiveCount& c : slot.status.counts) {
    const auto target = targets_.find(c.comm);
    if (target != targets_.end() && c.begun < target->second) return true;
  }
  return false;
}

bool Coordinator::held_back(const RankSlot& slot, uint64_t comm) const {
  const auto target = targets_.find(comm);
  return target == targets_.end() || begun_on(slot.status, comm) >= target->second;
}

// Communicators on which threads are held that the targets do not admit -> the largest count there.
std::map<uint64_t, uint64_t> Coordinator::held_back() const {
  std::map<uint64_t, uint64_t> all;
  for (const RankSlot& s : slots_)
    for (const uint64_t comm : s.status.held) {
      if (!held_back(s, comm)) continue;
      uint64_t& most = all[comm];
      most = std::max(most, begun_on(s.status, comm));
    }
  return all;
}

// A rank held before a subgroup call that another rank is inside of is the rank that the call waits for.
void Coordinator::look_for_awaited(int64_t now) {
  // Subgroup call -> a rank inside; whether a second rank is inside.
  std::map<uint64_t, std::pair<uint32_t, bool>> inside;
  for (uint32_t r = 0; r < slots_.size(); ++r)
    for (const uint64_t comm : slots_[r].status.inside)
      if ((comm & kSubgroupCall) != 0 && !inside.try_emplace(comm, r, false).second)
        inside[comm].second = true;
  std::map<uint64_t, int64_t> present;
  for (uint32_t r = 0; r < slots_.size(); ++r)
    for (const uint64_t comm : slots_[r].status.held) {
      const auto in = inside.find(comm);
      if (in == inside.end() || (in->second.first == r && !in->second.second)) continue;
      if (!held_back(slots_[r], comm)) continue;
      const auto before = awaited_.find(comm);
      present[comm] = before == awaited_.end() ? now : before->second;
    }
  awaited_ = std::move(present);
}

// A report under older targets proves nothing: the rank may have begun a collective since.
bool Coordinator::all_current() const {
  return revision_ != 0 && std::all_of(slots_.begin(), slots_.end(), [&](const RankSlot& s) {
           return s.reported && s.revision == revision_;
         });
}

void Coordinator::on(uint32_t rank, const StatusReport& m, int64_t now, Actions* out) {
  if (stage_ != Stage::kHolding) return;
  if (!m.status.refusal.empty())
    return fail(formatted("checkpoint refused: {}: {}", rank_name(rank), m.status.refusal), now, out,
                m.status.starting);
  RankSlot& s = slots_[rank];
  const bool was_behind = s.reported && behind(s);
  const bool changed = !(s.status == m.status);
  s.reported = true;
  s.revision = m.revision;
  s.status = m.status;
  if (changed && (was_behind || behind(s))) last_motion_ = now;
  look_for_awaited(now);
  if (revision_ == 0) {
    if (!std::all_of(slots_.begin(), slots_.end(), [](const RankSlot& slot) { return slot.reported; }))
      return;
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
  consider_stop(now, out);
}

// Ranks may be in different iterations and number them differently, so they are compared by their counts on
// shared communicators. The latest iteration wins. A contradiction ends the prediction: targets stay at the
// current counts.
void Coordinator::predict() {
  // Communicator -> a rank's count, and the iteration of that count.
  std::map<uint64_t, std::pair<BoundaryCount, uint64_t>> known;
  std::vector<uint64_t> iteration(slots_.size());  // per rank, in rank 0's numbering
  uint64_t latest = 0, longest = 0;
  for (uint32_t r = 0; r < slots_.size(); ++r) {
    const NextBoundary& b = slots_[r].status.boundary;
    if (b.iteration == 0 || b.counts.empty()) return;
    for (const BoundaryCount& c : b.counts)
      if (c.every == 0) return;
    iteration[r] = b.iteration;
    bool is_compared = r == 0;
    for (const BoundaryCount& c : b.counts) {
      const auto shared = known.find(c.comm);
      if (shared == known.end()) continue;
      const auto& [other, at] = shared->second;
      const auto ahead = static_cast<int64_t>(c.begun - other.begun);
      if (c.every != other.every || ahead % static_cast<int64_t>(c.every) != 0) return;
      iteration[r] = at + static_cast<uint64_t>(ahead / static_cast<int64_t>(c.every));
      is_compared = true;
      break;
    }
    if (!is_compared) return;
    for (const BoundaryCount& c : b.counts) known.try_emplace(c.comm, c, iteration[r]);
    latest = std::max(latest, iteration[r]);
    longest = std::max(longest, b.iteration_us);
  }
  if (static_cast<int64_t>(longest) > limits_.longest_iteration) return;
  std::map<uint64_t, uint64_t> ends;
  for (uint32_t r = 0; r < slots_.size(); ++r)
    for (const BoundaryCount& c : slots_[r].status.boundary.counts) {
      const uint64_t end = c.begun + (latest - iteration[r]) * c.every;
      if (ends.try_emplace(c.comm, end).first->second != end) return;
      if (const auto begun = targets_.find(c.comm); begun == targets_.end() || begun->second > end) return;
    }
  for (const auto& [comm, end] : ends) targets_[comm] = end;
  ends_ = std::move(ends);
  patience_ = 2 * static_cast<int64_t>(longest);
}

int64_t Coordinator::patience() const { return end_status_ == 0 ? patience_ : 0; }

// A predicted end that does not come (the loop is over) gets less time than a rank short of a collective that
// others have begun: the next attempt takes the ranks where they are.
int64_t Coordinator::attempt_ends() const {
  const bool waits = runs_to_ends() && stage_ == Stage::kHolding;
  return started_ + patience() + (waits ? limits_.prediction_bound : limits_.attempt_bound);
}

void Coordinator::send_targets(Actions* out) {
  ++revision_;
  Targets order{attempt_, revision_, {}};
  for (const auto& [comm, begun] : targets_) order.targets.push_back({comm, begun});
  broadcast(order, out);
}

void Coordinator::consider_stop(int64_t now, Actions* out) {
  if (!all_current()) return;
  if (std::any_of(slots_.begin(), slots_.end(), [&](const RankSlot& s) { return behind(s); })) return;
  stage_ = Stage::kStopping;
  stop_told_ = last_drains_ = now;
  broadcast(Stop{attempt_}, out);
}

// Collectives on communicators that the iteration creates itself, or that seldom take part in it, precede its
// end: no rank is held there while any rank is short of the end.
bool Coordinator::is_on_the_way(uint64_t comm) const {
  if (!runs_to_ends() || ends_.contains(comm)) return false;
  for (const RankSlot& s : slots_)
    for (const CollectiveCount& c : s.status.counts)
      if (const auto end = ends_.find(c.comm); end != ends_.end() && c.begun < end->second) return true;
  return false;
}

std::optional<int64_t> Coordinator::raise_at() const {
  if (!all_current()) return std::nullopt;
  const auto held = held_back();
  if (std::any_of(held.begin(), held.end(), [&](const auto& h) { return is_on_the_way(h.first); })) return 0;
  std::optional<int64_t> at = ordinary_raise_at();
  for (const auto& [comm, since] : awaited_)
    at = std::min(at.value_or(INT64_MAX), since + limits_.raise_awaited_after);
  return at;
}

std::optional<int64_t> Coordinator::ordinary_raise_at() const {
  if (held_back().empty()) return std::nullopt;
  if (raises_ != 0)
    return std::min(last_motion_ + limits_.raise_again_after, raised_ + limits_.raise_anyway_again_after);
  return patience() + std::min(last_motion_ + limits_.raise_after, raised_ + limits_.raise_anyway_after);
}

// By one only: a thread is about to begin that collective, so its other members will reach it too; the
// program may never make a later one. Awaited subgroup calls are raised alone and do not delay the others'
// raise, because such calls may follow one another forever.
void Coordinator::raise(int64_t now, Actions* out) {
  const auto ordinary = ordinary_raise_at();
  const bool all = ordinary && now >= *ordinary;
  for (const auto& [comm, begun] : held_back()) {
    const auto since = awaited_.find(comm);
    const bool awaited = since != awaited_.end() && now >= since->second + limits_.raise_awaited_after;
    if (!all && !awaited && !is_on_the_way(comm)) continue;
    targets_[comm] = begun + 1;
    awaited_.erase(comm);
  }
  if (all) {
    ++raises_;
    raised_ = last_motion_ = now;
  }
  send_targets(out);
}

void Coordinator::on(uint32_t rank, const Sent& m, int64_t now, Actions* out) {
  if (stage_ != Stage::kStopping) return;
  RankSlot& s = slots_[rank];
  std::fill(s.sent.begin(), s.sent.end(), 0);
  for (const PeerCount& p : m.sent)
    if (p.world_rank < slots_.size()) s.sent[p.world_rank] = p.messages;
  s.stopped = m.stopped;
  if (all_stopped() || now >= last_drains_ + limits_.interim_drain_after) {
    last_drains_ = now;
    send_drains(out);
  }
  consider_write(now, out);
}

bool Coordinator::all_stopped() const {
  return std::all_of(slots_.begin(), slots_.end(), [](const RankSlot& s) { return s.stopped; });
}

// Sends each stopped rank its expected messages, if changed. Counts are final only when all ranks have
// stopped, but a rank may be unable to stop until its receiver takes the message that it is sending.
void Coordinator::send_drains(Actions* out) {
  uint64_t revision = 0;
  for (uint32_t r = 0; r < slots_.size(); ++r) {
    RankSlot& s = slots_[r];
    if (!s.stopped) continue;
    std::vector<uint64_t> expected(slots_.size());
    for (uint32_t from = 0; from < slots_.size(); ++from) expected[from] = slots_[from].sent[r];
    if (s.drain_revision != 0 && expected == s.expected) continue;
    if (revision == 0) revision = ++drain_revision_;
    s.drain_revision = revision;
    s.expected = expected;
    Drain order{attempt_, revision, {}};
    for (uint32_t from = 0; from < slots_.size(); ++from)
      if (expected[from] != 0) order.expected.push_back({from, expected[from]});
    out->push_back(SendOrder{r, order});
  }
}

void Coordinator::on(uint32_t rank, const Drained& m, int64_t now, Actions* out) {
  if (stage_ != Stage::kStopping) return;
  slots_[rank].drained_revision = m.revision;
  consider_write(now, out);
}

void Coordinator::consider_write(int64_t, Actions* out) {
  if (version_begun_ || !all_stopped()) return;
  for (const RankSlot& s : slots_)
    if (s.drain_revision == 0 || s.drained_revision != s.drain_revision) return;
  version_begun_ = true;
  out->push_back(BeginVersion{});
}

void Coordinator::version_begun(const std::string& directory, int64_t now, Actions* out) {
  // The attempt may have ended while the directory was made; end_attempt() has requested its removal.
  if (stage_ != Stage::kStopping || !version_begun_) return;
  stage_ = Stage::kWriting;
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
  const std::string line = formatted("checkpoint failed: {}: {}", rank_name(rank), m.reason);
  if (stage_ == Stage::kStopping) return fail(line, now, out);
  if (stage_ != Stage::kWriting) return;
  slots_[rank].write_over = true;
  if (failure_.empty()) failure_ = line;
  consider_publish(now, out);
}

// Waits for every write, even if another failed: a rank cannot resume while its memory is being read.
void Coordinator::consider_publish(int64_t now, Actions* out) {
  for (const RankSlot& s : slots_)
    if (!s.write_over && s.gone.empty()) return;
  if (!failure_.empty()) return fail(failure_, now, out);
  stage_ = Stage::kPublishing;
  Publish action;
  for (const RankSlot& s : slots_) action.images.push_back(s.image);
  action.stall_seconds = static_cast<double>(now - stop_told_) * 1e-6;
  out->push_back(action);
}

void Coordinator::published(uint64_t version, int64_t now, Actions* out) {
  if (stage_ != Stage::kPublishing) return;
  Outcome outcome;
  outcome.published = true;
  outcome.version = version;
  for (const RankSlot& s : slots_) outcome.bytes += s.image.bytes;
  outcome.stall_seconds = static_cast<double>(now - stop_told_) * 1e-6;
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
      if (now < started_ + limits_.join_bound) return;
      for (uint32_t r = 0; r < slots_.size(); ++r)
        if (!slots_[r].joined)
          return fail(formatted("checkpoint refused: {} has not joined", rank_name(r)), now, out, true);
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
      if (now >= last_drains_ + limits_.interim_drain_after) {
        last_drains_ = now;
        send_drains(out);
      }
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
      if (std::all_of(slots_.begin(), slots_.end(), [](const RankSlot& s) { return s.joined; }))
        return std::nullopt;  // waits for discarded()
      return started_ + limits_.join_bound;
    case Stage::kPausing:
      return started_ + limits_.retry_pause;
    case Stage::kHolding: {
      const int64_t bound = attempt_ends();
      return std::min(bound, raise_at().value_or(bound));
    }
    case Stage::kStopping: {
      if (version_begun_) return std::nullopt;
      const int64_t bound = attempt_ends();
      for (uint32_t r = 0; r < slots_.size(); ++r) {
        if (!slots_[r].stopped) continue;
        bool news = slots_[r].drain_revision == 0;
        for (uint32_t from = 0; from < slots_.size() && !news; ++from)
          news = slots_[from].sent[r] != slots_[r].expected[from];
        if (news) return std::min(bound, last_drains_ + limits_.interim_drain_after);
      }
      return bound;
    }
  }
  return std::nullopt;
}

Phase Coordinator::phase() const {
  switch (stage_) {
    case Stage::kIdle:
    case Stage::kJoining:
    case Stage::kPausing:
      return Phase::kIdle;
    case Stage::kHolding:
      return Phase::kHolding;
    case Stage::kStopping:
      return all_stopped() ? Phase::kDraining : Phase::kStopping;
    case Stage::kWriting:
      return Phase::kWriting;
    case Stage::kPublishing:
      return Phase::kPublishing;
  }
  return Phase::kIdle;
}

// What kept the attempt from completing, in words that name ranks.
std::string Coordinator::what_is_missing() const {
  if (stage_ == Stage::kStopping) {
    for (uint32_t r = 0; r < slots_.size(); ++r)
      if (!slots_[r].stopped)
        return rank_name(r) + " did not stop: it is inside an MPI or system call that does not end";
    for (uint32_t r = 0; r < slots_.size(); ++r)
      if (slots_[r].drained_revision != slots_[r].drain_revision)
        return rank_name(r) + " has not received all messages sent to it";
  }
  for (uint32_t r = 0; r < slots_.size(); ++r)
    if (!slots_[r].reported) return rank_name(r) + " does not answer";
  uint32_t inside = 0, outside = 0;
  while (inside < slots_.size() && slots_[inside].status.inside.empty()) ++inside;
  while (outside < slots_.size() && !(behind(slots_[outside]) && slots_[outside].status.inside.empty()))
    ++outside;
  if (inside < slots_.size() && outside < slots_.size())
    return formatted(
        "{} is inside a collective that {} has not reached (it computes, or waits for a message)",
        rank_name(inside), rank_name(outside));
  if (inside < slots_.size())
    return rank_name(inside) + " is inside a collective or synchronous send that does not end";
  if (outside < slots_.size())
    return formatted("{} has not reached a collective that {} begun (it computes, or waits)",
                     rank_name(outside), who_is_ahead_of(slots_[outside]));
  return "the ranks keep changing";
}

// Names a rank that has begun what `slot` is short of, with a verb. A raised target may be ahead of all
// ranks.
std::string Coordinator::who_is_ahead_of(const RankSlot& slot) const {
  for (const CollectiveCount& c : slot.status.counts) {
    const auto target = targets_.find(c.comm);
    if (target == targets_.end() || c.begun >= target->second) continue;
    for (uint32_t r = 0; r < slots_.size(); ++r)
      if (begun_on(slots_[r].status, c.comm) > c.begun) return rank_name(r) + " has";
  }
  return "others have";
}

std::string Coordinator::waits_for() const {
  switch (stage_) {
    case Stage::kIdle:
      return "";
    case Stage::kJoining:
      for (uint32_t r = 0; r < slots_.size(); ++r)
        if (!slots_[r].joined) return rank_name(r) + " has not joined";
      return "the images of a checkpoint that failed are being removed";
    case Stage::kPausing:
      return missed_;
    case Stage::kHolding:
    case Stage::kStopping:
      return what_is_missing();
    case Stage::kWriting: {
      uint32_t first = 0, writers = 0;
      for (uint32_t r = 0; r < slots_.size(); ++r)
        if (!slots_[r].write_over && slots_[r].gone.empty() && writers++ == 0) first = r;
      if (writers < 2) return rank_name(first) + " is writing its image";
      return formatted("{} and {} more are writing their images", rank_name(first), writers - 1);
    }
    case Stage::kPublishing:
      return "all images are written, and are being made a version";
  }
  return "";
}

void Coordinator::give_up_attempt(int64_t now, Actions* out) {
  if (tries_ < limits_.attempts) {
    missed_ = what_is_missing();
    end_attempt(now, out);
    stage_ = Stage::kPausing;
    started_ = now;
    return;
  }
  char times[80];
  std::snprintf(times, sizeof times, "checkpoint given up after %u attempt%s of %.3g s: ", tries_,
                tries_ == 1 ? "" : "s", static_cast<double>(limits_.attempt_bound) * 1e-6);
  fail(formatted("{}{}; try again later", times, what_is_missing()), now, out);
}

void Coordinator::fail(const std::string& line, int64_t now, Actions* out, bool too_early) {
  if (phase() != Phase::kIdle) end_attempt(now, out);
  Outcome outcome;
  outcome.line = line;
  outcome.too_early = too_early;
  finish(outcome, out);
}

void Coordinator::end_attempt(int64_t now, Actions* out) {
  // Running to the end of an iteration costs the ranks nothing.
  const bool ran = runs_to_ends();
  held_ += now - (!ran ? started_ : stop_told_ != 0 ? stop_told_ : now);
  broadcast(Resume{attempt_}, out);
  if (!version_begun_) return;
  version_begun_ = false;
  discarding_ = true;
  out->push_back(Discard{});
}

void Coordinator::finish(Outcome outcome, Actions* out) {
  outcome.attempts = tries_;
  outcome.held_seconds = static_cast<double>(held_) * 1e-6;
  stage_ = Stage::kIdle;
  failure_.clear();
  out->push_back(Finished{outcome});
}

void Coordinator::broadcast(const Order& order, Actions* out) {
  for (uint32_t r = 0; r < slots_.size(); ++r)
    if (slots_[r].joined && slots_[r].gone.empty()) out->push_back(SendOrder{r, order});
}

}  // namespace cropdl::coord
