// An executable instruction, and the table of instructions. A warp executes an instruction for all its active
// lanes at once: a register is an array of 32 values, one per lane; inactive lanes keep their values. Runs on
// a processor's thread (launch.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cropdl::engine {

constexpr int kLanes = 32;
constexpr uint32_t kAllLanes = 0xffffffffu;

class Warp;

// The location of an operand's 32 values: a byte offset into the frame of the running function or, if
// negative, into the program's constants (literals, copied to 32 lanes when the kernel is lowered). A
// predicate is one uint32_t with a bit per lane.
using Place = int32_t;

struct Instruction {
  using Execute = void (*)(Warp& warp, const Instruction& instruction, uint32_t active);
  static constexpr int kOperands = 9;
  // Of `flags`: bit i (0 … 8): predicate operand i is negated (!p). Higher bits are the engine's own:
  static constexpr uint32_t kGuarded = 1u << 31, kGuardNegated = 1u << 30, kControl = 1u << 29;

  Execute execute = nullptr;
  Place operands[kOperands] = {};  // destinations first, then sources, as in the row's signature
  uint32_t flags = 0;
  Place guard = 0;     // @%p; `active` is already without the lanes that it excludes
  uint32_t extra = 0;  // additional data of control, memory and warp instructions
  union {
    int64_t immediate = 0;
    // Rows with more than nine operands (mma) have all of them here and none in `operands`.
    const Place* many;
  };
};
static_assert(sizeof(Instruction) == 64, "one line of the cache");

// The content of a place: determines the register's width and how a literal is read. kCarry is not an operand
// of the text but the carry flag of add.cc and similar: one predicate per frame. The lowering puts its place
// into operands[] where the row names it (a destination, a source or both).
enum class Kind : uint8_t { kNone, kPred, k16, k32, k64, k128, kF16, kF32, kF64, kCarry };

// One line of the table: an opcode ("add.rn.ftz.f32"), its operands and its function. Vectors of registers
// are counted one by one. Several rows may have the same opcode: the row whose numbers of operands and widths
// of registers match the text is used. So mov.b64 of a vector is a row (32,32) -> 64, setp with p|q one with
// two destinations, and cvt.u16.u8 into a wider register one with a wider kind (PTX ISA, "Operand size
// exceeding instruction-type size"). A destination `_` is a place that is never read.
struct Row {
  std::string_view opcode;
  std::vector<Kind> destinations, sources;
  Instruction::Execute execute = nullptr;
  std::string_view what;  // class, for the documentation: "integer", "conversion", …
};

// All rows of data processing: register values computed from register values, without memory or other lanes,
// except mma. Made once. (The engine implements control, memory, barriers, shuffles and atomics itself,
// lower_*.cpp.)
const std::vector<Row>& data_rows();
// Returns the opcode with the modifiers of rounding and range at the end, in a fixed order: PTX allows them
// anywhere among the types (nvcc writes min.s16x2.relu). For comparing opcodes, not for showing them.
std::string canonical(std::string_view opcode);

}  // namespace cropdl::engine
