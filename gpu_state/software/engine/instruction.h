// One instruction as it runs, and the table that says what there is. A warp executes an instruction for all
// its active lanes at once: a register is an array of 32 values, one per lane, and what a lane does not do
// leaves its value alone. Runs on a processor's thread (launch.h).
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

// Where an operand's 32 values lie: an offset in bytes into the frame of the running function or, below zero,
// into the constants of the program (literals, spread over 32 lanes when the kernel is lowered). Predicates
// are one uint32_t with a bit per lane.
using Place = int32_t;

struct Instruction {
  using Execute = void (*)(Warp& warp, const Instruction& instruction, uint32_t active);
  static constexpr int kOperands = 9;
  // Of `flags`: bit i (0 … 8): predicate operand i is negated (!p). Above them, the engine's own:
  static constexpr uint32_t kGuarded = 1u << 31, kGuardNegated = 1u << 30, kControl = 1u << 29;

  Execute execute = nullptr;
  Place operands[kOperands] = {};  // destinations first, then sources, as in the row's signature
  uint32_t flags = 0;
  Place guard = 0;     // @%p; `active` is already without the lanes that it leaves out
  uint32_t extra = 0;  // of control, memory and warp instructions: what they need besides
  union {
    int64_t immediate = 0;
    // Rows with more than nine operands (mma) have all of them here, and none in `operands`.
    const Place* many;
  };
};
static_assert(sizeof(Instruction) == 64, "one line of the cache");

// What a place holds: it says how wide the register is and how a literal is read. kCarry is no operand of the
// text but the carry flag of add.cc and its like: one predicate per frame, whose place the lowering puts into
// operands[] where the row names it (a destination, a source or both).
enum class Kind : uint8_t { kNone, kPred, k16, k32, k64, k128, kF16, kF32, kF64, kCarry };

// One line of the table: "add.rn.ftz.f32" with what it takes and what it does. Vectors of registers are
// counted one by one. Several rows may have one opcode: the one is taken whose numbers of operands and widths
// of registers are those of the text. So mov.b64 of a vector is a row (32,32) -> 64, setp with p|q one with
// two destinations, and cvt.u16.u8 into a wider register one with a wider kind (PTX ISA, "Operand size
// exceeding instruction-type size"). A destination `_` is a place that nobody reads.
struct Row {
  std::string_view opcode;
  std::vector<Kind> destinations, sources;
  Instruction::Execute execute = nullptr;
  std::string_view what;  // class for the documentation: "integer", "conversion", …
};

// All rows of data processing: one register value out of others, no memory, no other lane, except mma. Made
// once. (Control, memory, barriers, shuffles and atomics are the engine's own, lower.cpp.)
const std::vector<Row>& data_rows();
// PTX lets the modifiers that choose rounding and range stand anywhere among the types (nvcc writes
// min.s16x2.relu): the opcode with these behind the rest, in one order. To compare opcodes, not to show them.
std::string canonical(std::string_view opcode);

}  // namespace cropdl::engine
