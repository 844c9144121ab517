// Operations among lanes of a warp: shuffles, votes, matches, reductions, warp barriers, matrices. The lanes
// in the mask meet first, from any groups and frames; exited lanes are not awaited (PTX ISA, "shfl.sync",
// "vote.sync", "match.sync", "redux.sync", "elect.sync", "bar.warp.sync").
#include <bit>

#include "base/format.h"
#include "gpu_state/software/engine/running.h"

namespace cropdl::engine {

namespace {
constexpr uint32_t kNobodysValue =
    0xdeadbeefu;  // a shuffle's result from an absent lane, which is undefined in PTX

uint32_t fold(Fold how, uint32_t a, uint32_t b) {
  auto s = [](uint32_t v) { return static_cast<int32_t>(v); };
  switch (how) {
    case Fold::kAdd:
      return a + b;
    case Fold::kMinSigned:
      return s(a) < s(b) ? a : b;
    case Fold::kMaxSigned:
      return s(a) > s(b) ? a : b;
    case Fold::kMinUnsigned:
      return a < b ? a : b;
    case Fold::kMaxUnsigned:
      return a > b ? a : b;
    case Fold::kAnd:
      return a & b;
    case Fold::kOr:
      return a | b;
    case Fold::kXor:
      return a ^ b;
  }
  return 0;
}

// What the lanes give and get.
struct Exchange {
  uint32_t all;  // the lanes
  uint64_t values[kLanes] = {};
  uint32_t extra[2][kLanes] = {};  // a shuffle's lane operand, and its limits
  uint32_t said = 0;               // lanes whose predicate holds
  uint32_t result[kLanes] = {}, predicates = 0;
};

// The operands of a group, whose frame is selected.
void gather(WarpRun& warp, const Group& group, const CollectiveUse& use, Exchange& x) {
  const Instruction& in = *group.at;
  const uint32_t mask = group.mask;
  auto take = [&](auto* into, auto* from) {
    for (int l = 0; l < kLanes; ++l)
      if (mask >> l & 1) into[l] = from[l];
  };
  switch (use.kind) {
    case Collective::kVoteAll:
    case Collective::kVoteAny:
    case Collective::kVoteUniform:
    case Collective::kBallot: {
      uint32_t p = warp.predicate(in.operands[2]);
      if (in.flags >> 2 & 1) p = ~p;
      x.said |= p & mask;
      break;
    }
    case Collective::kElect:
      break;
    case Collective::kShuffle:
      take(x.extra[0], warp.lanes<uint32_t>(in.operands[3]));
      take(x.extra[1], warp.lanes<uint32_t>(in.operands[4]));
      [[fallthrough]];
    default:
      if (use.wide)
        take(x.values, warp.lanes<uint64_t>(in.operands[2]));
      else
        take(x.values, warp.lanes<uint32_t>(in.operands[2]));
  }
}

void shuffle(uint8_t mode, Exchange& x) {
  uint32_t predicates = 0;
  for (int l = 0; l < kLanes; ++l) {
    int b = static_cast<int>(x.extra[0][l] & 31), clamp = static_cast<int>(x.extra[1][l] & 31),
        segment = static_cast<int>(x.extra[1][l] >> 8 & 31);
    int most = (l & segment) | (clamp & ~segment), least = l & segment, from = l;
    bool inside = false;
    switch (mode) {
      case 0:
        from = l - b, inside = from >= most;
        break;
      case 1:
        from = l + b, inside = from <= most;
        break;
      case 2:
        from = l ^ b, inside = from <= most;
        break;
      default:
        from = least | (b & ~segment), inside = from <= most;
    }
    if (!inside) from = l;
    x.result[l] = x.all >> from & 1 ? static_cast<uint32_t>(x.values[from]) : kNobodysValue;
    if (inside) predicates |= 1u << l;
  }
  x.predicates = predicates;
}

void combine(const CollectiveUse& use, Exchange& x) {
  const uint32_t leader = std::countr_zero(x.all);
  switch (use.kind) {
    case Collective::kShuffle:
      shuffle(use.mode, x);
      break;
    case Collective::kVoteAll:
      x.predicates = x.said == x.all ? kAllLanes : 0;
      break;
    case Collective::kVoteAny:
      x.predicates = x.said ? kAllLanes : 0;
      break;
    case Collective::kVoteUniform:
      x.predicates = x.said == x.all || !x.said ? kAllLanes : 0;
      break;
    case Collective::kBallot:
      for (uint32_t& r : x.result) r = x.said;
      break;
    case Collective::kMatchAny:
      for (int l = 0; l < kLanes; ++l)
        for (int other = 0; other < kLanes; ++other)
          if ((x.all >> other & 1) && x.values[l] == x.values[other]) x.result[l] |= 1u << other;
      break;
    case Collective::kMatchAll: {
      bool match = true;
      for (int l = 0; l < kLanes; ++l) match &= !(x.all >> l & 1) || x.values[l] == x.values[leader];
      for (uint32_t& r : x.result) r = match ? x.all : 0;
      x.predicates = match ? kAllLanes : 0;
      break;
    }
    case Collective::kReduce: {
      uint32_t sum = static_cast<uint32_t>(x.values[leader]);
      for (uint32_t l = leader + 1; l < kLanes; ++l)
        if (x.all >> l & 1) sum = fold(static_cast<Fold>(use.mode), sum, static_cast<uint32_t>(x.values[l]));
      for (uint32_t& r : x.result) r = sum;
      break;
    }
    case Collective::kElect:
      for (uint32_t& r : x.result) r = leader;
      x.predicates = 1u << leader;
      break;
    case Collective::kMoveMatrix:
      // Row r, column c of an 8 by 8 matrix of 16-bit elements is in lane r * 4 + c / 2; the result is its
      // transpose.
      for (int l = 0; l < kLanes; ++l) {
        auto element = [&](int row, int column) {
          return static_cast<uint32_t>(x.values[row * 4 + column / 2] >> (column % 2 * 16)) & 0xffff;
        };
        int row = l / 4, column = l % 4 * 2;
        x.result[l] = element(column, row) | element(column + 1, row) << 16;
      }
      break;
    default:
      break;
  }
}

// Its results go to a group, whose frame is selected.
void hand_out(WarpRun& warp, const Group& group, const Exchange& x) {
  const Instruction& in = *group.at;
  const uint32_t mask = group.mask;
  if (in.operands[0] != kNowhere) {
    uint32_t* to = warp.lanes<uint32_t>(in.operands[0]);
    for (int l = 0; l < kLanes; ++l)
      if (mask >> l & 1) to[l] = x.result[l];
  }
  if (in.operands[1] != kNowhere) {
    uint32_t& p = warp.predicate(in.operands[1]);
    p = (p & ~mask) | (x.predicates & mask);
  }
}
}  // namespace

uint32_t WarpRun::named(const CollectiveUse& use, uint32_t active) {
  if (use.everybody) return kAllLanes;
  const uint32_t* masks = lanes<uint32_t>(use.mask);
  uint32_t first = masks[std::countr_zero(active)];
  uint32_t differ = 0;
  for (int l = 0; l < kLanes; ++l) differ |= (active >> l & 1) ? masks[l] ^ first : 0;
  return differ || (active & ~first) ? 0 : first;
}

// Lanes of a group arrive at a collective instruction and wait for the others. Returns false if the grid
// ends.
bool WarpRun::meet(Group& group, const Instruction* at, uint32_t active) {
  const CollectiveUse& use = current->routine->collectives[collective_of(*at)];
  const uint32_t first = std::countr_zero(active);
  uint32_t need = kAllLanes, same = active;
  if (!use.everybody) {
    const uint32_t* masks = lanes<uint32_t>(use.mask);
    need = masks[first];
    same = 0;
    for (int l = 0; l < kLanes; ++l)
      if ((active >> l & 1) && masks[l] == need) same |= 1u << l;
    if (same & ~need) {
      fail(at, std::countr_zero(same & ~need), CUDA_ERROR_ILLEGAL_INSTRUCTION,
           formatted("the thread is not in the mask {:#010x} that it names", need));
      return false;
    }
  }
  uint32_t rest = active & ~same, out = group.mask & ~active;
  group.mask = same;
  group.at = at;
  group.state = State::kCollective;
  group.need = need;
  if (rest) add(rest, at, current);
  if (out) add(out, at + 1, current);
  return true;
}

// Whether all lanes in the mask have arrived at such an instruction; then they execute it.
bool WarpRun::complete(uint32_t need, const CollectiveUse& use) {
  Group* with[kLanes];
  uint32_t there = 0, n = 0;
  for (uint32_t i = 0; i < count; ++i) {
    Group& group = groups[i];
    if (group.state != State::kCollective || group.need != need) continue;
    const CollectiveUse& other = group.frame->routine->collectives[collective_of(*group.at)];
    if (other.kind != use.kind || other.mode != use.mode || other.wide != use.wide) continue;
    there |= group.mask;
    with[n++] = &group;
  }
  if (need & alive & ~there) return false;
  perform(with, n);
  for (uint32_t i = 0; i < n; ++i) {
    with[i]->state = State::kReady;
    with[i]->need = 0;
    ++with[i]->at;
  }
  return true;
}

void WarpRun::perform(Group** with, uint32_t n) {
  const Instruction& at = *with[0]->at;
  const CollectiveUse& use = with[0]->frame->routine->collectives[collective_of(at)];
  uint32_t all = 0;
  for (uint32_t i = 0; i < n; ++i) all |= with[i]->mask;
  if (use.kind == Collective::kWarpBarrier) return;
  if (use.everybody && all != kAllLanes) {
    select(with[0]->frame);
    return fail(&at, std::countr_zero(all), CUDA_ERROR_ILLEGAL_INSTRUCTION,
                "it wants all 32 threads of the warp");
  }
  if (use.kind == Collective::kData) {
    select(with[0]->frame);
    if (n > 1)
      return fail(&at, std::countr_zero(all), CUDA_ERROR_ILLEGAL_INSTRUCTION,
                  "the warp's threads are at different calls of it");
    at.execute(*this, at, all);
    if (attention) fail(&at, trouble.lane, trouble.error, {});
    return;
  }

  Exchange x{all};
  for (uint32_t i = 0; i < n; ++i) {
    select(with[i]->frame);
    gather(*this, *with[i], use, x);
  }
  combine(use, x);
  for (uint32_t i = 0; i < n; ++i) {
    select(with[i]->frame);
    hand_out(*this, *with[i], x);
  }
}

}  // namespace cropdl::engine
