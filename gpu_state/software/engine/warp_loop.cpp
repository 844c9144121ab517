// The loop that executes a warp: it chooses which lanes run next, and moves lanes. Runs on a worker thread.
// Lanes at the same instruction of the same frame form a group. Among several groups, the deepest in calls
// runs first, then the one furthest behind in the code, so that they reconverge. After a while another group
// gets a turn, so that lanes can wait for each other. With a seed, the choice, its length, and whether lanes
// stay together are random.
#include <algorithm>
#include <bit>

#include "gpu_state/software/engine/running.h"

namespace cropdl::engine {

namespace {
// choices, after which a group other than the one furthest behind gets a turn
constexpr int kRotateAfter = 256;
constexpr uint32_t kPolls = 64;      // reads in what looks like a waiting loop, until another warp's turn
constexpr uint32_t kGroupPolls = 8;  // and until another group's
}  // namespace

bool WarpRun::ready() const {
  for (uint32_t i = 0; i < count; ++i)
    if (groups[i].state == State::kReady) return true;
  return false;
}

Group& WarpRun::add(uint32_t mask, const Instruction* at, Frame* of) {
  Group& group = groups[count++];
  group = Group{};
  group.mask = mask;
  group.at = at;
  group.frame = of;
  group.turn = ++turns_;
  return group;
}

void WarpRun::remove(uint32_t which) { groups[which] = groups[--count]; }

// Merges groups at the same place; lanes that have all reached a collective instruction execute it.
void WarpRun::join() {
  for (uint32_t i = 0; i < count; ++i) {
    for (uint32_t j = i + 1; j < count;) {
      Group &a = groups[i], &b = groups[j];
      if (a.at == b.at && a.frame == b.frame && a.state == b.state && !a.held && !b.held &&
          a.need == b.need && a.barrier == b.barrier) {
        a.mask |= b.mask;
        a.turn = std::max(a.turn, b.turn);
        remove(j);
      } else {
        ++j;
      }
    }
  }
  for (uint32_t i = 0; i < count; ++i) {
    if (groups[i].state != State::kCollective) continue;
    const auto& use = groups[i].frame->routine->collectives[collective_of(*groups[i].at)];
    if (complete(groups[i].need, use)) {
      if (attention) return;
      join();
      return;
    }
  }
}

Group* WarpRun::pick() {
  if (count == 1 && groups[0].state == State::kReady) return &groups[0];
  join();
  if (attention) return nullptr;
  uint32_t ready = 0;
  Group *first = nullptr, *oldest = nullptr, *forced = nullptr;
  for (uint32_t i = 0; i < count; ++i) {
    Group& group = groups[i];
    if (group.state != State::kReady) continue;
    ++ready;
    if (!first || group.frame->depth > first->frame->depth ||
        (group.frame->depth == first->frame->depth && group.at < first->at))
      first = &group;
    if (!oldest || group.turn < oldest->turn) oldest = &group;
    if (forced_lane_ >= 0 && (group.mask >> forced_lane_ & 1)) forced = &group;
  }
  if (!first) return nullptr;
  Group* chosen = first;
  if (ready == 1) {
    forced_lane_ = -1;
    choices_ = 0;
  } else if (orderly_ > 0) {
    --orderly_;
  } else if (block->random) {
    if (forced && --forced_choices_ > 0) {
      chosen = forced;
    } else if (block->chooser.pick(4) == 0) {
      uint32_t which = block->chooser.pick(ready);
      for (uint32_t i = 0; i < count; ++i)
        if (groups[i].state == State::kReady && which-- == 0) chosen = &groups[i];
      forced_lane_ = std::countr_zero(chosen->mask);
      forced_choices_ = 1 << block->chooser.pick(8);
    }
  } else if (forced && --forced_choices_ > 0) {
    chosen = forced;
  } else if (++choices_ > kRotateAfter) {
    choices_ = 0;
    chosen = oldest;
    forced_lane_ = std::countr_zero(chosen->mask);
    forced_choices_ = kRotateAfter;
  } else {
    forced_lane_ = -1;
  }
  chosen->turn = ++turns_;
  return chosen;
}

// With a seed: some lanes of a group run ahead, the others wait for a while.
void WarpRun::part(Group& group) {
  uint32_t ahead = group.mask & ((block->chooser.pick(1u << 16) << 16) | block->chooser.pick(1u << 16));
  if (block->chooser.pick(2)) {  // a contiguous range of lanes, as programs divide work
    uint32_t lane = block->chooser.pick(kLanes);
    ahead = group.mask & (kAllLanes << lane);
    if (block->chooser.pick(2)) ahead = group.mask & ~ahead;
  }
  if (!ahead || ahead == group.mask) return;
  Group& behind = add(group.mask & ~ahead, group.at, group.frame);
  behind.held = true;
  group.mask = ahead;
  forced_lane_ = std::countr_zero(ahead);
  forced_choices_ = 1 << block->chooser.pick(8);
}

Pause WarpRun::run(int64_t& budget) {
  polls = 0;
  return block->random ? loop<true>(budget) : loop<false>(budget);
}

template <bool kRandom>
Pause WarpRun::loop(int64_t& budget) {
  while (alive) {
    if (block->grid->stop.load(std::memory_order_relaxed)) return Pause::kDone;
    Group* group = pick();
    if (!group) {
      if (attention) return Pause::kDone;
      return Pause::kWaiting;
    }
    uint32_t fuel = ~0u;
    if (kRandom) fuel = 1u << block->chooser.pick(8);
    uint32_t before = polls;
    if (!step<kRandom>(*group, budget, fuel)) return Pause::kDone;
    if (polls - before > kGroupPolls) choices_ = kRotateAfter;
    if (polls <= kPolls && budget > 0) continue;
    // waiting groups may have met: pick() lets them continue, or reports that all wait
    if (!ready()) continue;
    return polls > kPolls ? Pause::kSpinning : Pause::kQuantum;
  }
  return Pause::kDone;
}

// Where the next group of this frame waits for its turn; nullptr: none does.
const Instruction* WarpRun::next_meeting(const Instruction* ip) const {
  const Instruction* next = nullptr;
  for (uint32_t i = 0; i < count; ++i)
    if (groups[i].frame == current && groups[i].state == State::kReady && groups[i].at > ip &&
        (!next || groups[i].at < next))
      next = groups[i].at;
  return next;
}

// Lanes with different targets part. Returns false if the grid ends.
bool WarpRun::branch_by_table(Group& group, const Instruction* ip, uint32_t active) {
  const Routine& routine = *current->routine;
  const auto& table = routine.tables[ip->immediate];
  const uint32_t* index = lanes<uint32_t>(ip->operands[0]);
  group.mask &= ~active;
  group.at = ip + 1;
  while (active) {
    const uint32_t lane = std::countr_zero(active);
    uint32_t same = 0;
    for (uint32_t l = lane; l < kLanes; ++l)
      if ((active >> l & 1) && index[l] == index[lane]) same |= 1u << l;
    if (index[lane] >= table.size()) {
      fail(ip, lane, CUDA_ERROR_ILLEGAL_INSTRUCTION, "the index is beyond the table of branch targets");
      return false;
    }
    const Instruction* target = routine.code.data() + table[index[lane]];
    if (!group.mask) {
      group.mask = same;
      group.at = target;
    } else {
      add(same, target, current);
    }
    active &= ~same;
  }
  return true;
}

// The active lanes return or exit; the others go on.
void WarpRun::end_routine(Group& group, const Instruction* ip, uint32_t active) {
  const uint32_t others = group.mask & ~active;
  group.mask = active;
  group.at = ip;
  if (others) add(others, ip + 1, current);
  if (control_of(*ip) == Control::kExit || current->routine->is_entry)
    exit_lanes(group, active);
  else
    leave(group);
}

// False: a collective instruction waits for lanes outside of the group. True: performed, or an error of it
// has attention.
bool WarpRun::performed_alone(Group& group, const Instruction* ip) {
  const CollectiveUse& use = current->routine->collectives[collective_of(*ip)];
  const uint32_t need = named(use, group.mask);
  if (!need || (need & alive) != group.mask) return false;
  group.at = ip;
  Group* with = &group;
  perform(&with, 1);
  if (!attention) select(group.frame);
  return true;
}

// For activemask: whether lanes that can still arrive are worth waiting for. Real devices return the largest
// set too.
bool WarpRun::awaits_more_lanes(const Group& group, const Instruction* ip) {
  bool others = false;
  for (uint32_t i = 0; i < count; ++i) {
    const Group& other = groups[i];
    if (&other == &group || other.state != State::kReady) continue;
    if (other.frame->depth > current->depth || (other.frame == current && other.at <= ip)) others = true;
  }
  if (!others || patience_ <= 0) {
    patience_ = 1024;
    return false;
  }
  --patience_;
  orderly_ = 64;
  forced_lane_ = -1;
  for (uint32_t i = 0; i < count; ++i) groups[i].held = false;
  return true;
}

// Executes a group until it meets another, changes its set of lanes, waits, or has used up its budget.
// Returns false if the grid ends.
template <bool kRandom>
bool WarpRun::step(Group& group, int64_t& budget, uint32_t fuel) {
  if (kRandom && (group.mask & (group.mask - 1)) && count < 8 && block->chooser.pick(3) == 0) part(group);
  group.held = false;
  select(group.frame);
  const uint32_t mask = group.mask;
  const Instruction* ip = group.at;
  const Instruction* const code = current->routine->code.data();
  const Instruction* const stop = next_meeting(ip);
  for (;;) {
    const Instruction& in = *ip;
    uint32_t active = mask;
    if (in.flags & Instruction::kGuarded) {
      uint32_t guard = predicate(in.guard);
      active &= in.flags & Instruction::kGuardNegated ? ~guard : guard;
    }
    if (!active) {
      ++ip;
    } else if (!(in.flags & Instruction::kControl)) {
      in.execute(*this, in, active);
      if (attention) {
        fail(ip, trouble.lane, trouble.error, {});
        return false;
      }
      ++ip;
    } else {
      switch (control_of(in)) {
        case Control::kBranch: {
          const Instruction* target = code + in.immediate;
          if (active != mask) {
            group.mask = mask & ~active;
            group.at = ip + 1;
            add(active, target, current);
            --budget;
            return true;
          }
          const bool back = target <= ip;
          budget -= back;
          ip = target;
          if (count > 1 || budget <= 0 || polls > kPolls || (back && (budget & 255) == 0)) {
            group.at = ip;
            return true;
          }
          break;
        }
        case Control::kBranchTable:
          --budget;
          return branch_by_table(group, ip, active);
        case Control::kCall: {
          group.at = ip;
          const CallSite& site = current->routine->calls[in.immediate];
          if (site.target >= CallSite::Target::kPrint) {
            system_call(ip, site, active);
            if (attention) return false;
            ++ip;
            break;
          }
          --budget;
          return call(group, ip, active);
        }
        case Control::kReturn:
        case Control::kExit:
          end_routine(group, ip, active);
          return true;
        case Control::kTrap:
          fail(ip, std::countr_zero(active), CUDA_ERROR_LAUNCH_FAILED, "trap");
          return false;
        case Control::kBreakpoint:
          fail(ip, std::countr_zero(active), CUDA_ERROR_LAUNCH_FAILED, "brkpt, and there is no debugger");
          return false;
        case Control::kBarrier:
          return arrive(group, ip, active);
        case Control::kCollective:
          if (active != mask || !performed_alone(group, ip)) return meet(group, ip, active);
          if (attention) return false;
          ++ip;
          break;
        case Control::kActiveMask: {
          if (awaits_more_lanes(group, ip)) {
            group.at = ip;
            return true;
          }
          uint32_t* to = lanes<uint32_t>(in.operands[0]);
          for (uint32_t l = 0; l < kLanes; ++l)
            if (active >> l & 1) to[l] = active;
          ++ip;
          break;
        }
        case Control::kSleep:
          polls += kPolls + 1;
          group.at = ip + 1;
          return true;
      }
    }
    if (ip == stop) {
      group.at = ip;
      return true;
    }
    if (kRandom) {
      --budget;
      if (--fuel == 0 || budget <= 0) {
        group.at = ip;
        return true;
      }
    }
  }
}

void WarpRun::looked(const Instruction& in, uint32_t active, uint64_t address, uint64_t seen) {
  for (Look& look : looks_) {
    if (look.at != &in || look.address != address || look.lanes != active) continue;
    if (look.seen == seen) ++polls;
    look.seen = seen;
    return;
  }
  looks_[next_look_++ % looks_.size()] = {&in, address, seen, active};
}

void WarpRun::fault(uint32_t lane, CUresult error, uint64_t address, const char* what) {
  if (attention) return;
  attention = true;
  trouble = {lane, error, address, what};
}

}  // namespace cropdl::engine
