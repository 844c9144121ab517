// Executes cp.async and mbarrier (asynchronous.cpp).
#pragma once

#include "gpu_state/software/engine/memory.h"

namespace cropdl::engine {

// operands: 0: destination register, 1: source register, 2: bytes to read (or kNowhere: all). `immediate`:
// both offsets, the destination's in the low half. `extra`: bytes, and the flags below.
constexpr uint32_t kToNoBase = 1 << 8, kFromNoBase = 1 << 9, kToNarrow = 1 << 10, kFromNarrow = 1 << 11,
                   kIgnoreSource = 1 << 12;
void copy_async(Warp& warp, const Instruction& instruction, uint32_t active);
void copy_commit(Warp& warp, const Instruction& instruction, uint32_t active);
void copy_wait(Warp& warp, const Instruction& instruction,
               uint32_t active);  // immediate: the number of groups that may stay open
void copy_wait_all(Warp& warp, const Instruction& instruction, uint32_t active);

// The address as in memory.h. operands: 0: destination or kNowhere, 1: count, token or parity, or kNowhere.
constexpr uint32_t kNoComplete = 1 << 7;  // in `extra`: the arrival must not complete the phase
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
