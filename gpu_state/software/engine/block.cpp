// A block: the schedule of its warps, and its barriers. Threads arrive at a barrier individually, as since
// sm_70; a barrier with a count works in units of warps, whose missing and exited lanes count as arrived (PTX
// ISA, "bar", "barrier").
#include "gpu_state/software/engine/running.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>

#include "base/format.h"

namespace cropdl::engine {

namespace {
constexpr int64_t kQuantum = 1 << 14;  // backward jumps, without a seed
constexpr int64_t kTurn = 64;          // fixed cost of each turn of a warp
constexpr size_t kSharedSlack = 64;
}  // namespace

Block::~Block() { std::free(shared); }

void Block::begin(Grid* of, uint64_t which, uint64_t who, uint32_t on) {
  grid = of;
  number = which;
  processor = on;
  const Dim3& shape = of->launch->grid;
  at = {static_cast<uint32_t>(which % shape[0]), static_cast<uint32_t>(which / shape[0] % shape[1]),
        static_cast<uint32_t>(which / shape[0] / shape[1])};
  if (size_t wanted = of->shared_bytes + kSharedSlack; shared_capacity_ < wanted) {
    std::free(shared);
    shared_capacity_ = (wanted + 1023) / 1024 * 1024;
    shared = static_cast<std::byte*>(std::aligned_alloc(1024, shared_capacity_));
  }
  std::memset(shared, 0xff, of->shared_bytes);  // unwritten memory reads as NaN
  live = of->threads;
  chooser = settings::Chooser(who * 0x9e3779b97f4a7c15u + of->number * 0x100000001b3u + which);
  random = chooser.random();
  spins = 0;
  used_ = of->warps;
  while (warps_.size() < used_) warps_.push_back(std::make_unique<WarpRun>());
  for (uint32_t w = 0; w < used_; ++w)
    warps_[w]->begin(this, w, std::min<uint32_t>(kLanes, of->threads - w * kLanes));
  next_ = 0;
  for (BarrierState& barrier : barriers_) barrier = {};
}

SliceEnd Block::run(int64_t budget) {
  bool progress = false;
  uint32_t idle = 0;  // consecutive warps that wait or spin
  while (live && !grid->stop.load(std::memory_order_relaxed)) {
    WarpRun* warp = nullptr;
    if (random) {
      uint32_t ready = 0;
      for (uint32_t w = 0; w < used_; ++w) ready += warps_[w]->ready();
      if (ready) {
        uint32_t which = chooser.pick(ready);
        for (uint32_t w = 0; w < used_ && !warp; ++w)
          if (warps_[w]->ready() && which-- == 0) warp = warps_[w].get();
      }
    } else {
      for (uint32_t i = 0; i < used_ && !warp; ++i) {
        uint32_t w = next_ + i < used_ ? next_ + i : next_ + i - used_;
        if (!warps_[w]->ready()) continue;
        warp = warps_[w].get();
        next_ = w;
      }
    }
    if (!warp) {
      grid->fail(CUDA_ERROR_LAUNCH_FAILED, waiting());
      return SliceEnd::kDone;
    }
    int64_t quantum = random ? int64_t{1} << chooser.pick(13) : kQuantum;
    int64_t left = quantum;
    Pause pause = warp->run(left);
    if (!random && ++next_ >= used_) next_ = 0;
    if (pause == Pause::kSpinning) {
      if (++idle >= 2 * used_) {
        spins = progress ? 0 : spins + 1;
        return SliceEnd::kSpinning;
      }
      budget -= kTurn;
    } else {
      idle = 0;
      progress = true;
      // A turn that ended at a barrier was shorter than allowed: the block continues while its memory is
      // cached.
      budget -= random ? quantum : quantum - left + kTurn;
    }
    if (budget <= 0) {
      if (progress) spins = 0;  // with a seed, turns that only spin may use up the budget
      return live ? SliceEnd::kQuantum : SliceEnd::kDone;
    }
  }
  return SliceEnd::kDone;
}

void Block::arrived(WarpRun& warp, uint32_t lanes, uint32_t which, bool arrive_only, uint32_t expected,
                    const uint32_t* predicate) {
  BarrierState& barrier = barriers_[which];
  // An explicit count of all threads equals no count.
  barrier.expected = barrier.in_use ? std::min(barrier.expected, expected) : expected;
  barrier.in_use = true;
  barrier.arrives |= arrive_only;
  barrier.threads += std::popcount(lanes);
  barrier.arrived[warp.index] |= lanes;
  if (predicate) {
    barrier.popc += std::popcount(*predicate & lanes);
    barrier.any |= (*predicate & lanes) != 0;
    barrier.all &= (*predicate & lanes) == lanes;
  }
  check(which);
}

// Completes the barrier if all threads that have not exited have arrived, or as many as it counts; the
// waiting threads then continue.
void Block::check(uint32_t which) {
  BarrierState& barrier = barriers_[which];
  if (!barrier.in_use) return;
  if (!barrier.expected && !barrier.arrives) {
    if (barrier.threads < live) return;
  } else {
    uint32_t threads = 0;
    for (uint32_t w = 0; w < used_; ++w) {
      bool there = (warps_[w]->alive & ~barrier.arrived[w]) == 0;
      if (barrier.expected && there && barrier.arrived[w]) threads += kLanes;
      if (!barrier.expected && !there) return;
    }
    if (threads < barrier.expected) return;
  }
  BarrierState done = barrier;
  barrier = {};
  for (uint32_t w = 0; w < used_; ++w)
    if (done.arrived[w]) warps_[w]->release(which, done.popc, done.all, done.any);
}

void Block::exited(uint32_t lanes) {
  live -= std::popcount(lanes);
  for (uint32_t which = 0; which < barriers_.size(); ++which) check(which);
}

// No thread can continue: says who waits for what.
std::string Block::waiting() const {
  std::string text =
      formatted("{}, block ({}, {}, {}): every thread waits and none can come:", grid->kernel->facts.name,
                at[0], at[1], at[2]);
  for (uint32_t w = 0; w < used_; ++w)
    for (uint32_t i = 0; i < warps_[w]->count; ++i) {
      const Group& group = warps_[w]->groups[i];
      if (text.size() > 1000) return text + " and others";
      const ptx::Instruction* source = group.frame->routine->source[group.frame->routine->index_of(group.at)];
      text += formatted(" warp {} lanes {:#010x} at {} (line {} of the PTX)", w, group.mask,
                        source ? source->opcode : "?", source ? source->line : 0);
      if (group.state == State::kBarrier) text += formatted(", barrier {}", group.barrier);
      if (group.state == State::kCollective) text += formatted(", mask {:#010x}", group.need);
      text += ";";
    }
  text.pop_back();
  return text;
}

void WarpRun::release(uint32_t which, uint32_t popc, bool all, bool any) {
  for (uint32_t i = 0; i < count; ++i) {
    Group& group = groups[i];
    if (group.state != State::kBarrier || group.barrier != which) continue;
    const Instruction& at = *group.at;
    switch (group.frame->routine->barriers[at.immediate].kind) {
      case Barrier::kPopc: {
        auto* to = reinterpret_cast<uint32_t*>(group.frame->registers + at.operands[0]);
        for (int l = 0; l < kLanes; ++l)
          if (group.mask >> l & 1) to[l] = popc;
        break;
      }
      case Barrier::kAnd:
      case Barrier::kOr: {
        bool value = group.frame->routine->barriers[at.immediate].kind == Barrier::kAnd ? all : any;
        auto* to = reinterpret_cast<uint32_t*>(group.frame->registers + at.operands[0]);
        *to = (*to & ~group.mask) | (value ? group.mask : 0);
        break;
      }
      default:
        break;
    }
    group.state = State::kReady;
    ++group.at;
  }
}

// Lanes of a group arrive at a barrier. Returns true if the warp continues (the next choice decides with
// which lanes).
bool WarpRun::arrive(Group& group, const Instruction* at, uint32_t active) {
  const BarrierUse& use = current->routine->barriers[at->immediate];
  const uint32_t* numbers = lanes<uint32_t>(at->operands[1]);
  const uint32_t first = std::countr_zero(active), number = numbers[first];
  uint32_t same = 0, expected = use.counted ? lanes<uint32_t>(at->operands[2])[first] : 0;
  for (int l = 0; l < kLanes; ++l)
    if ((active >> l & 1) && numbers[l] == number &&
        (!use.counted || lanes<uint32_t>(at->operands[2])[l] == expected))
      same |= 1u << l;
  auto wrong = [&](const std::string& why) {
    fail(at, first, CUDA_ERROR_ILLEGAL_INSTRUCTION, why);
    return false;
  };
  if (number > 15) return wrong(formatted("there is no barrier {}", number));
  if (use.counted && (expected == 0 || expected % kLanes))
    return wrong(formatted("{} threads at a barrier: it must be a multiple of 32", expected));
  const uint32_t before = block->expected_of(number), whole = block->grid->warps * kLanes;
  const bool of_all = (!before || before == whole) && (!expected || expected == whole);
  if (before != ~0u && before != expected && !of_all)
    return wrong(
        formatted("barrier {} is used with {} and with {} threads at once", number, before, expected));
  if (block->has_arrived(*this, same, number))
    return wrong(formatted("a thread arrives at barrier {} again before it was complete", number));
  uint32_t predicate = 0;
  bool reduces = use.kind >= Barrier::kPopc;
  if (reduces) {
    predicate = this->predicate(at->operands[3]);
    if (at->flags >> 3 & 1) predicate = ~predicate;
  }
  uint32_t rest = active & ~same, out = group.mask & ~active;
  group.mask = same;
  group.at = at;
  if (rest) add(rest, at, current);
  if (out) add(out, at + 1, current);
  if (use.kind == Barrier::kArrive) {
    group.at = at + 1;
  } else {
    group.state = State::kBarrier;
    group.barrier = static_cast<uint8_t>(number);
    group.need = 0;
  }
  block->arrived(*this, same, number, use.kind == Barrier::kArrive, expected, reduces ? &predicate : nullptr);
  return true;
}

}  // namespace cropdl::engine
