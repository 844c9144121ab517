// cp.async and mbarrier, as asynchronous.cpp executes them.
#pragma once

#include "gpu_state/software/engine/memory.h"

namespace cropdl::engine {

// operands: 0: destination's register, 1: source's, 2: bytes to read (or kNowhere: all); immediate: both
// offsets, the destination's in the low half; extra: bytes; flags as below.
constexpr uint32_t kToNoBase = 1 << 8, kFromNoBase = 1 << 9, kToNarrow = 1 << 10, kFromNarrow = 1 << 11,
                   kIgnoreSource = 1 << 12;
void copy_async(Warp& warp, const Instruction& instruction, uint32_t active);
void copy_commit(Warp& warp, const Instruction& instruction, uint32_t active);
void copy_wait(Warp& warp, const Instruction& instruction,
               uint32_t active);  // immediate: so many groups may be open
void copy_wait_all(Warp& warp, const Instruction& instruction, uint32_t active);

// The address is as in memory.h. operands: 0: destination or kNowhere, 1: count or token or parity, or
// kNowhere.
constexpr uint32_t kNoComplete = 1 << 7;  // of extra: an arrival that must not end the phase
enum class Phase : uint8_t {
  kInit,
  kInvalidate,
  kArrive,
  kArriveDrop,
  kExpect,
  kComplete,
  kArriveExpect,
  kTest,
  kTestParity,
  kArriveCopies,
  kArriveCopiesNoIncrement
};
template <Phase kWhat>
void phase_barrier(Warp& warp, const Instruction& instruction, uint32_t active);
void phase_pending(Warp& warp, const Instruction& instruction, uint32_t active);  // 0: destination, 1: token

}  // namespace cropdl::engine
