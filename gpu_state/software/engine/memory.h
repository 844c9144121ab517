// What ld, st, atom and their kin are lowered to. The functions behind are compiled for several instruction
// sets (lanes.h) and without the thread sanitizer: kernels that race are the program's matter.
#pragma once

#include "gpu_state/software/engine/instruction.h"
#include "gpu_state/software/engine/running.h"

namespace cropdl::engine {

// Of Instruction::extra, for memory instructions.
constexpr uint32_t kCountMask = 15;          // elements of the vector
constexpr uint32_t kNarrowAddress = 1 << 4;  // the address register has 32 bits
constexpr uint32_t kNoBase = 1 << 5;         // no address register: `immediate` is all
constexpr uint32_t kPoll = 1 << 6;           // a read that waiting loops consist of
constexpr int kAreaShift = 16;               // three bits: the Area, where one function serves several
constexpr int kAddress = 8;                  // which operand is the address register
constexpr uint32_t kMostElements = 8;        // of a vector; atom with so many has its operands in `many`:
constexpr int kManyAddress = 16, kManyOffset = 17;  // behind results and sources; the offset is a constant

enum class Area : uint8_t { kGlobal, kGeneric, kShared, kLocal, kParameter };

struct MemoryForm {
  bool store = false;
  Area area = Area::kGlobal;
  uint8_t size = 4;  // bytes of an element in memory
  uint8_t wide = 4;  // bytes of a register
  bool is_signed = false;
};
// Null: no such form.
Instruction::Execute memory_execute(const MemoryForm& form);

enum class Atomic : uint8_t {
  kAdd,
  kMinimum,
  kMaximum,
  kIncrement,
  kDecrement,
  kAnd,
  kOr,
  kXor,
  kExchange,
  kCompare
};
enum class Number : uint8_t { kBits, kUnsigned, kSigned, kFloat, kHalf, kBrain, kHalf2, kBrain2 };
struct AtomicForm {
  Atomic what = Atomic::kAdd;
  Number number = Number::kBits;
  uint8_t size = 4;
  bool returns = true;  // atom, not red
  Area area = Area::kGlobal;
};
Instruction::Execute atomic_execute(const AtomicForm& form);

// Where an address of a lane leads; null after a fault of that lane was noted. `size` is a power of two up to
// 16 unless it is `bytes` that need no alignment.
std::byte* resolve(WarpRun& warp, uint32_t lane, Area area, uint64_t address, uint32_t size, bool write,
                   bool aligned = true);
// For printf and assert. False: it may not be read.
bool read_generic(WarpRun& warp, uint32_t lane, uint64_t address, void* into, size_t size);

}  // namespace cropdl::engine
