// The execution of ld, st, atom and similar instructions. The functions are compiled for several instruction
// sets (lanes.h), and without the thread sanitizer, because data races of kernels are the program's.
#pragma once

#include "gpu_state/software/engine/instruction.h"
#include "gpu_state/software/engine/running.h"

namespace cropdl::engine {

// Bits of Instruction::extra for memory instructions.
constexpr uint32_t kCountMask = 15;          // elements of the vector
constexpr uint32_t kNarrowAddress = 1 << 4;  // the address register has 32 bits
constexpr uint32_t kNoBase = 1 << 5;         // no address register: `immediate` is the whole address
constexpr uint32_t kPoll = 1 << 6;           // a read that may belong to a waiting loop
constexpr int kAreaShift = 16;               // three bits: the Area, for functions that serve several
constexpr int kAddress = 8;                  // index of the address register's operand
constexpr uint32_t kMostElements = 8;        // of a vector; atom with that many has its operands in `many`:
constexpr int kManyAddress = 16, kManyOffset = 17;  // behind results and sources; the offset is constant

enum class Area : uint8_t { kGlobal, kGeneric, kShared, kLocal, kParameter };

struct MemoryForm {
  bool store = false;
  Area area = Area::kGlobal;
  uint8_t size = 4;  // bytes of an element in memory
  uint8_t wide = 4;  // bytes of a register
  bool is_signed = false;
};
// Null: there is no such form.
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

// Translates a lane's address to a host address; null: the lane's fault has been recorded. `size` is a power
// of two up to 16, unless it is a number of bytes without alignment (`aligned` false).
std::byte* resolve(WarpRun& warp, uint32_t lane, Area area, uint64_t address, uint32_t size, bool write,
                   bool aligned = true);
// For printf and assert. False: not readable.
bool read_generic(WarpRun& warp, uint32_t lane, uint64_t address, void* into, size_t size);

}  // namespace cropdl::engine
