// The coordinator's phase and what it waits for, in words (cut.h). Pure; rank 0's agent thread (LH FS base).
#include "base/format.h"
#include "coord/cut.h"

namespace cropdl::coord {

std::string rank_name(uint32_t rank) { return formatted("rank {}", rank); }

const char* phase_name(Phase phase) {
  constexpr const char* kNames[] = {"idle", "holding", "stopping", "draining", "writing", "publishing"};
  return kNames[static_cast<size_t>(phase)];
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
      if (!slots_[r].stopped && !slots_[r].examining)
        return rank_name(r) + " did not stop: it is inside an MPI or system call that does not end";
    for (uint32_t r = 0; r < slots_.size(); ++r)
      if (slots_[r].examining) return rank_name(r) + " has stopped, and its memory is being examined";
    for (uint32_t r = 0; r < slots_.size(); ++r)
      if (slots_[r].drained_revision != slots_[r].drain_revision)
        return rank_name(r) + " has not received all messages sent to it";
  }
  for (uint32_t r = 0; r < slots_.size(); ++r)
    if (!slots_[r].reported) return rank_name(r) + " does not answer";
  uint32_t inside = 0, outside = 0;
  while (inside < slots_.size() && slots_[inside].status.inside.empty()) ++inside;
  while (outside < slots_.size() && !(slots_[outside].behind && slots_[outside].status.inside.empty()))
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
  return "no rank is stuck, but at no moment were all ranks outside collectives";
}

// A rank that has begun what `slot` is short of, with a verb. A raised target may be ahead of all.
std::string Coordinator::who_is_ahead_of(const RankSlot& slot) const {
  for (const CollectiveCount& c : slot.status.counts) {
    const auto target = targets_.find(c.comm);
    if (target == targets_.end() || c.begun >= target->second) continue;
    for (uint32_t r = 0; r < slots_.size(); ++r)
      if (begun_on(slots_[r].status, c.comm) > c.begun) return rank_name(r) + " has";
  }
  return "others have";
}

// The line that refuses a version with a communicator that some of its members do not have: a restart could
// not make it again. "": there is none. For ranks at their targets, where all members have made the same.
std::string Coordinator::incomplete_communicator() const {
  std::map<uint64_t, uint64_t> there;
  for (const RankSlot& s : slots_)
    for (const Membership& m : s.status.members) ++there[m.comm];
  for (uint32_t r = 0; r < slots_.size(); ++r)
    for (const Membership& m : slots_[r].status.members)
      if (there[m.comm] != m.ranks)
        return formatted(
            "checkpoint refused: {}: a communicator of NCCL's with {} ranks exists on {} of them only, so it "
            "could not be made again; destroy it there, too (ncclCommDestroy)",
            rank_name(r), m.ranks, there[m.comm]);
  return "";
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

}  // namespace cropdl::coord
