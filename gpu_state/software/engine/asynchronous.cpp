// cp.async copies when it is waited for (with a seed, sometimes at once), so that a kernel that forgets to
// wait sees old data. An mbarrier has 64 bits in shared memory: expected threads in bits 0…19, pending
// threads in 20…39, pending bytes in 40…61 (signed), the phase in 63 (PTX ISA leaves the layout to the
// implementation).
#include "gpu_state/software/engine/asynchronous.h"

namespace cropdl::engine {

namespace {

uint64_t address_in(WarpRun& warp, const Instruction& in, int operand, bool none, bool narrow, uint32_t lane,
                    int32_t offset) {
  if (none) return static_cast<uint32_t>(offset);
  if (narrow)
    return uint32_t(warp.lanes<uint32_t>(in.operands[operand])[lane] + static_cast<uint32_t>(offset));
  return warp.lanes<uint64_t>(in.operands[operand])[lane] + static_cast<uint64_t>(int64_t{offset});
}

void copy_now(const WarpRun::Copy& copy) {
  const auto* from = reinterpret_cast<const std::byte*>(copy.from);
  for (uint32_t i = 0; i < copy.bytes; i += 4) {
    if (copy.bytes - i >= 4) {
      __builtin_memcpy(copy.to + i, from + i, 4);
    } else {
      for (uint32_t b = i; b < copy.bytes; ++b) copy.to[b] = from[b];
    }
  }
  for (uint32_t i = 0; i < copy.zeros; ++i) copy.to[copy.bytes + i] = std::byte{0};
}

}  // namespace

void WarpRun::perform_copies(uint32_t lanes, uint32_t open) {
  size_t kept = 0;
  for (const Copy& copy : copies) {
    if ((lanes >> copy.lane & 1) && (open == kNoGroup || copy.group + uint64_t{open} < copy_group[copy.lane]))
      copy_now(copy);
    else
      copies[kept++] = copy;
  }
  copies.resize(kept);
}

void copy_async(Warp& base, const Instruction& in, uint32_t active) {
  WarpRun& warp = static_cast<WarpRun&>(base);
  const uint32_t size = in.extra & 31;
  for (uint32_t l = 0; l < kLanes; ++l) {
    if (!(active >> l & 1)) continue;
    uint64_t to = address_in(warp, in, 0, in.extra & kToNoBase, in.extra & kToNarrow, l,
                             static_cast<int32_t>(in.immediate));
    uint64_t from = address_in(warp, in, 1, in.extra & kFromNoBase, in.extra & kFromNarrow, l,
                               static_cast<int32_t>(in.immediate >> 32));
    uint32_t bytes = size;
    if (in.operands[2] != kNowhere) {
      if (in.extra & kIgnoreSource) {
        bool ignore = (warp.predicate(in.operands[2]) ^ (0u - (in.flags >> 2 & 1))) >> l & 1;
        if (ignore) bytes = 0;
      } else {
        bytes = warp.lanes<uint32_t>(in.operands[2])[l];
        if (bytes > size)
          return warp.fault(l, CUDA_ERROR_ILLEGAL_INSTRUCTION, bytes, "more bytes to read than to write:");
      }
    }
    std::byte* where = resolve(warp, l, Area::kShared, to, size, true);
    if (!where) return;
    if (from & (size - 1)) return warp.fault(l, CUDA_ERROR_MISALIGNED_ADDRESS, from, "misaligned address");
    if (bytes && !resolve(warp, l, Area::kGlobal, from, bytes, false, false)) return;
    WarpRun::Copy copy{where, from, bytes, size - bytes, static_cast<uint8_t>(l), warp.copy_group[l]};
    if (warp.block->random && warp.block->chooser.pick(2))
      copy_now(copy);
    else
      warp.copies.push_back(copy);
  }
}

void copy_commit(Warp& base, const Instruction&, uint32_t active) {
  WarpRun& warp = static_cast<WarpRun&>(base);
  for (uint32_t l = 0; l < kLanes; ++l) warp.copy_group[l] += active >> l & 1;
}

void copy_wait(Warp& base, const Instruction& in, uint32_t active) {
  static_cast<WarpRun&>(base).perform_copies(active, static_cast<uint32_t>(in.immediate));
}

void copy_wait_all(Warp& base, const Instruction&, uint32_t active) {
  static_cast<WarpRun&>(base).perform_copies(active, WarpRun::kNoGroup);
}

namespace {

// No barrier: unwritten memory, or the result of mbarrier.inval. (Ignores the phase. A barrier with that many
// threads, none of which arrived, and with unexpected bytes would look the same.)
constexpr uint64_t kNone = ~uint64_t{0} >> 1;
constexpr uint64_t kTwenty = (1 << 20) - 1, kBytes = (1 << 22) - 1, kPhase = uint64_t{1} << 63;
struct Counts {
  uint64_t expected, pending;
  int64_t bytes;
  uint64_t phase;
};
Counts counts_of(uint64_t word) {
  auto bytes = static_cast<int64_t>(word >> 40 & kBytes);
  if (bytes >> 21) bytes -= 1 << 22;
  return {word & kTwenty, word >> 20 & kTwenty, bytes, word & kPhase};
}
uint64_t word_of(const Counts& c) {
  return (c.expected & kTwenty) | (c.pending & kTwenty) << 20 |
         (static_cast<uint64_t>(c.bytes) & kBytes) << 40 | c.phase;
}
void settle(Counts& c) {
  if (c.pending || c.bytes) return;
  c.phase ^= kPhase;
  c.pending = c.expected;
}

}  // namespace

template <Phase kWhat>
void phase_barrier(Warp& base, const Instruction& in, uint32_t active) {
  WarpRun& warp = static_cast<WarpRun&>(base);
  const Area area = static_cast<Area>(in.extra >> kAreaShift & 7);
  const bool tests = kWhat == Phase::kTest || kWhat == Phase::kTestParity;
  // The copies that it waits for are made now: no kernel can see the difference.
  if (kWhat == Phase::kArriveCopies || kWhat == Phase::kArriveCopiesNoIncrement)
    warp.perform_copies(active, WarpRun::kNoGroup);
  uint32_t answer = 0;
  for (uint32_t l = 0; l < kLanes; ++l) {
    if (!(active >> l & 1)) continue;
    uint64_t address = static_cast<uint64_t>(in.immediate);
    if (!(in.extra & kNoBase))
      address = in.extra & kNarrowAddress
                    ? uint32_t(warp.lanes<uint32_t>(in.operands[kAddress])[l] + uint32_t(address))
                    : warp.lanes<uint64_t>(in.operands[kAddress])[l] + address;
    if (area == Area::kGeneric && address >> kWindowShift != static_cast<uint64_t>(Window::kShared))
      return warp.fault(l, CUDA_ERROR_ILLEGAL_ADDRESS, address, "an mbarrier lies in shared memory, not at");
    auto* word = reinterpret_cast<uint64_t*>(resolve(warp, l, area, address, 8, true));
    if (!word) return;
    uint64_t value = 0;
    if (in.operands[1] != kNowhere)
      value = kWhat == Phase::kTest ? warp.lanes<uint64_t>(in.operands[1])[l]
                                    : warp.lanes<uint32_t>(in.operands[1])[l];
    if (kWhat == Phase::kInit) {
      if (value < 1 || value > kTwenty)
        return warp.fault(l, CUDA_ERROR_ILLEGAL_INSTRUCTION, value, "the count of an mbarrier cannot be");
      *word = word_of({value, value, 0, 0});
      continue;
    }
    if (kWhat == Phase::kInvalidate) {
      *word = kNone;
      continue;
    }
    if ((*word & kNone) == kNone)
      return warp.fault(l, CUDA_ERROR_ILLEGAL_INSTRUCTION, address, "no mbarrier was made at");
    Counts c = counts_of(*word);
    if (tests) {
      bool done = kWhat == Phase::kTest ? c.phase != (value & kPhase) : (c.phase >> 63) != (value & 1);
      answer |= static_cast<uint32_t>(done) << l;
      continue;
    }
    uint64_t before = *word, arrivals = 0;
    if (kWhat == Phase::kArriveCopies || kWhat == Phase::kArriveCopiesNoIncrement) {
      if (kWhat == Phase::kArriveCopies) continue;  // one more arrival is expected, and happens at once
      arrivals = 1;
    } else if (kWhat == Phase::kArrive || kWhat == Phase::kArriveDrop) {
      arrivals = in.operands[1] == kNowhere ? 1 : value;
    } else if (kWhat == Phase::kArriveExpect) {
      arrivals = 1;
    }
    constexpr bool kMore = kWhat == Phase::kExpect || kWhat == Phase::kArriveExpect;
    if (kMore || kWhat == Phase::kComplete) {
      c.bytes += kMore ? static_cast<int64_t>(value) : -static_cast<int64_t>(value);
      if (value > kTwenty || c.bytes > static_cast<int64_t>(kTwenty) ||
          -c.bytes > static_cast<int64_t>(kTwenty))
        return warp.fault(l, CUDA_ERROR_ILLEGAL_INSTRUCTION, address, "more bytes than can be expected, at");
    }
    if (arrivals > c.pending)
      return warp.fault(l, CUDA_ERROR_ILLEGAL_INSTRUCTION, address,
                        "more threads arrive than the mbarrier expects, at");
    c.pending -= arrivals;
    if (kWhat == Phase::kArriveDrop) c.expected -= arrivals;
    if ((in.extra & kNoComplete) && !c.pending && !c.bytes)
      return warp.fault(l, CUDA_ERROR_ILLEGAL_INSTRUCTION, address,
                        "it must not end the phase of the mbarrier at");
    settle(c);
    *word = word_of(c);
    if (in.operands[0] != kNowhere) warp.lanes<uint64_t>(in.operands[0])[l] = before;
  }
  if (tests) {
    uint32_t& to = warp.predicate(in.operands[0]);
    to = (to & ~active) | (answer & active);
    if (active & ~answer) ++warp.polls;
  }
}

void phase_pending(Warp& warp, const Instruction& in, uint32_t active) {
  for (uint32_t l = 0; l < kLanes; ++l)
    if (active >> l & 1)
      warp.lanes<uint32_t>(in.operands[0])[l] =
          static_cast<uint32_t>(counts_of(warp.lanes<uint64_t>(in.operands[1])[l]).pending);
}

template void phase_barrier<Phase::kInit>(Warp&, const Instruction&, uint32_t);
template void phase_barrier<Phase::kInvalidate>(Warp&, const Instruction&, uint32_t);
template void phase_barrier<Phase::kArrive>(Warp&, const Instruction&, uint32_t);
template void phase_barrier<Phase::kArriveDrop>(Warp&, const Instruction&, uint32_t);
template void phase_barrier<Phase::kExpect>(Warp&, const Instruction&, uint32_t);
template void phase_barrier<Phase::kComplete>(Warp&, const Instruction&, uint32_t);
template void phase_barrier<Phase::kArriveExpect>(Warp&, const Instruction&, uint32_t);
template void phase_barrier<Phase::kTest>(Warp&, const Instruction&, uint32_t);
template void phase_barrier<Phase::kTestParity>(Warp&, const Instruction&, uint32_t);
template void phase_barrier<Phase::kArriveCopies>(Warp&, const Instruction&, uint32_t);
template void phase_barrier<Phase::kArriveCopiesNoIncrement>(Warp&, const Instruction&, uint32_t);

}  // namespace cropdl::engine
