// The coordinator: how far ranks run before they stop, and how long they are held there. See cut.h and
// docs/cut.md. Pure; rank 0's agent thread (LH FS base).
#include <algorithm>

#include "coord/cut.h"

namespace cropdl::coord {

// Each report and each turn asks for the result, and a rank may have thousands of communicators.
void Coordinator::compare(RankSlot* slot) const {
  const RankStatus& s = slot->status;
  slot->behind = !s.inside.empty();
  slot->short_of_end = false;
  for (const CollectiveCount& c : s.counts) {
    if (const auto target = targets_.find(c.comm); target != targets_.end() && c.begun < target->second)
      slot->behind = true;
    if (const auto end = ends_.find(c.comm); end != ends_.end() && c.begun < end->second)
      slot->short_of_end = true;
  }
  slot->held_back.clear();
  // A rank that is short may be held all the same: its target may admit a group only in part.
  for (const HeldCalls& held : s.held) {
    const auto target = targets_.find(held.comm);
    if (target == targets_.end() || held.wanted > target->second) slot->held_back.push_back(held);
  }
}

// Communicators on which threads are held that the targets do not admit -> the target that admits them all.
std::map<uint64_t, uint64_t> Coordinator::held_back() const {
  std::map<uint64_t, uint64_t> all;
  for (const RankSlot& s : slots_)
    for (const HeldCalls& held : s.held_back) {
      uint64_t& most = all[held.comm];
      most = std::max(most, held.wanted);
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
    for (const HeldCalls& held : slots_[r].held_back) {
      const auto in = inside.find(held.comm);
      if (in == inside.end() || (in->second.first == r && !in->second.second)) continue;
      const auto before = awaited_.find(held.comm);
      present[held.comm] = before == awaited_.end() ? now : before->second;
    }
  awaited_ = std::move(present);
}

// A report under older targets proves nothing: the rank may have begun a collective since.
bool Coordinator::all_current() const {
  const auto is_current = [&](const RankSlot& s) { return s.reported && s.revision == revision_; };
  return revision_ != 0 && std::ranges::all_of(slots_, is_current);
}

// Ranks may be in different iterations and number them differently, so they are compared by their counts on
// shared communicators. The latest iteration wins. After a contradiction targets stay at the current counts.
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
  if (stage_ == Stage::kStopping && someone_examines()) return bound_from_ + limits_.examination_bound;
  return bound_from_ + patience() + (waits ? limits_.prediction_bound : limits_.attempt_bound);
}

void Coordinator::send_targets(Actions* out) {
  ++revision_;
  for (RankSlot& s : slots_) compare(&s);
  Targets order{attempt_, revision_, {}};
  for (const auto& [comm, begun] : targets_) order.targets.push_back({comm, begun});
  broadcast(order, out);
}

// Collectives on communicators that the iteration creates itself, or that seldom take part in it, precede its
// end: no rank is held there while any rank is short of the end.
bool Coordinator::is_on_the_way(uint64_t comm) const {
  return runs_to_ends() && !ends_.contains(comm) && std::ranges::any_of(slots_, &RankSlot::short_of_end);
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

// Only by the collectives that a thread is about to begin: their other members will reach them too; the
// program may never make a later one. Of a group all communicators rise together, since it begins as a whole.
// Awaited subgroup calls are raised alone and delay no other's raise: they may follow one another forever.
void Coordinator::raise(int64_t now, Actions* out) {
  const auto ordinary = ordinary_raise_at();
  const bool all = ordinary && now >= *ordinary;
  for (const auto& [comm, wanted] : held_back()) {
    const auto since = awaited_.find(comm);
    const bool awaited = since != awaited_.end() && now >= since->second + limits_.raise_awaited_after;
    if (!all && !awaited && !is_on_the_way(comm)) continue;
    targets_[comm] = wanted;
    awaited_.erase(comm);
  }
  if (all) {
    ++raises_;
    raised_ = last_motion_ = now;
  }
  send_targets(out);
}

// A rank that is held reports nothing until that changes.
int64_t Coordinator::longest_wait(int64_t now) const {
  int64_t longest = 0;
  for (const RankSlot& s : slots_) {
    const bool is_held = stop_told_ == 0 && !s.status.held.empty();
    longest = std::max(longest, s.waited + (is_held ? now - s.reported_at : 0));
  }
  return longest;
}

}  // namespace cropdl::coord
