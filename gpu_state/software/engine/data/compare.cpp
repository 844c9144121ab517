// Rows of setp and set for integers, f32 and f64. A comparison over 32 lanes makes one mask; what PTX does
// with it (combine it with a predicate, write its opposite too, spread it over a register) costs a few
// instructions.
#include "gpu_state/software/arithmetic/compare.h"

#include "gpu_state/software/arithmetic/floating.h"
#include "gpu_state/software/engine/data/tables.h"

namespace cropdl::engine {
namespace {

template <class T, Comparison comparison, bool flush>
[[gnu::noinline]] u32 compared(const T* a, const T* b) {
  Results<bool> results;
#pragma GCC ivdep
  for (int lane = 0; lane < kLanes; ++lane) {
    if constexpr (flush)
      results.set(lane, compare<comparison>(flushed(a[lane]), flushed(b[lane])));
    else
      results.set(lane, compare<comparison>(a[lane], b[lane]));
  }
  return results.mask();
}

enum class Combine { kNone, kAnd, kOr, kXor };
template <Combine combine>
u32 combined(u32 mask, u32 c) {
  switch (combine) {
    case Combine::kNone:
      return mask;
    case Combine::kAnd:
      return mask & c;
    case Combine::kOr:
      return mask | c;
    case Combine::kXor:
      return mask ^ c;
  }
}

// setp.combine p, a, b, c: `written` predicates (p, or p and q, which gets the opposite comparison).
template <class T, Comparison comparison, bool flush, Combine combine, int written>
void set_predicate(Warp& warp, const Instruction& instruction, u32 active) {
  const Source<T> a(warp, instruction, written), b(warp, instruction, written + 1);
  u32 c = 0;
  if (combine != Combine::kNone) c = Source<bool>(warp, instruction, written + 2).mask;
  const u32 mask = compared<T, comparison, flush>(a.values, b.values);
  u32& p = *reinterpret_cast<u32*>(place(warp, instruction.operands[0]));
  p = (p & ~active) | (combined<combine>(mask, c) & active);
  if (written == 2) {
    u32& q = *reinterpret_cast<u32*>(place(warp, instruction.operands[1]));
    q = (q & ~active) | (combined<combine>(~mask, c) & active);
  }
}
// set: all bits, or 1.0f, where it is true.
template <class T, Comparison comparison, bool flush, Combine combine, u32 truth>
void set_register(Warp& warp, const Instruction& instruction, u32 active) {
  const Source<T> a(warp, instruction, 1), b(warp, instruction, 2);
  u32 c = 0;
  if (combine != Combine::kNone) c = Source<bool>(warp, instruction, 3).mask;
  const u32 mask = combined<combine>(compared<T, comparison, flush>(a.values, b.values), c);
  u32* to = reinterpret_cast<u32*>(place(warp, instruction.operands[0]));
#pragma GCC ivdep
  for (int lane = 0; lane < kLanes; ++lane)
    to[lane] = active >> lane & 1 ? (mask >> lane & 1 ? truth : 0) : to[lane];
}

#define SETP(T, comparison, flush, combine, opcode, c)                             \
  Entry{opcode,                                                                    \
        "",                                                                        \
        "",                                                                        \
        {Kind::kPred},                                                             \
        {Held<T>::kind, Held<T>::kind, c},                                         \
        set_predicate<T, comparison, flush, combine, 1>},                          \
      Entry {                                                                      \
    opcode, "", "", {Kind::kPred, Kind::kPred}, {Held<T>::kind, Held<T>::kind, c}, \
        set_predicate<T, comparison, flush, combine, 2>                            \
  }
#define SET(T, comparison, flush, combine, opcode, type, c)                       \
  Entry{opcode ".{u32|s32}." type,                                                \
        "",                                                                       \
        "",                                                                       \
        {Kind::k32},                                                              \
        {Held<T>::kind, Held<T>::kind, c},                                        \
        set_register<T, comparison, flush, combine, ~u32(0)>},                    \
      Entry {                                                                     \
    opcode ".f32." type, "", "", {Kind::kF32}, {Held<T>::kind, Held<T>::kind, c}, \
        set_register<T, comparison, flush, combine, 0x3f800000>                   \
  }
// `name`: lt; `ftz`: ".ftz" or ""; `types`: the types for which the bits compare the same.
#define COMPARE(T, comparison, flush, name, ftz, types)                                          \
  SETP(T, comparison, flush, Combine::kNone, "setp." name ftz "." types, Kind::kNone),           \
      SETP(T, comparison, flush, Combine::kAnd, "setp." name ".and" ftz "." types, Kind::kPred), \
      SETP(T, comparison, flush, Combine::kOr, "setp." name ".or" ftz "." types, Kind::kPred),   \
      SETP(T, comparison, flush, Combine::kXor, "setp." name ".xor" ftz "." types, Kind::kPred)
#define COMPARE_SET(T, comparison, flush, name, ftz, types)                                 \
  COMPARE(T, comparison, flush, name, ftz, types),                                          \
      SET(T, comparison, flush, Combine::kNone, "set." name ftz, types, Kind::kNone),       \
      SET(T, comparison, flush, Combine::kAnd, "set." name ".and" ftz, types, Kind::kPred), \
      SET(T, comparison, flush, Combine::kOr, "set." name ".or" ftz, types, Kind::kPred),   \
      SET(T, comparison, flush, Combine::kXor, "set." name ".xor" ftz, types, Kind::kPred)

#define EQUAL(T, types)                                    \
  COMPARE_SET(T, Comparison::kEq, false, "eq", "", types), \
      COMPARE_SET(T, Comparison::kNe, false, "ne", "", types)
#define ORDER_SIGNED(T, types)                                 \
  COMPARE_SET(T, Comparison::kLt, false, "lt", "", types),     \
      COMPARE_SET(T, Comparison::kLe, false, "le", "", types), \
      COMPARE_SET(T, Comparison::kGt, false, "gt", "", types), \
      COMPARE_SET(T, Comparison::kGe, false, "ge", "", types)
#define ORDER_UNSIGNED(T, types)                                    \
  COMPARE_SET(T, Comparison::kLt, false, "{lt|lo}", "", types),     \
      COMPARE_SET(T, Comparison::kLe, false, "{le|ls}", "", types), \
      COMPARE_SET(T, Comparison::kGt, false, "{gt|hi}", "", types), \
      COMPARE_SET(T, Comparison::kGe, false, "{ge|hs}", "", types)
#define FLOAT(T, flush, ftz, types)                               \
  COMPARE_SET(T, Comparison::kEq, flush, "eq", ftz, types),       \
      COMPARE_SET(T, Comparison::kNe, flush, "ne", ftz, types),   \
      COMPARE_SET(T, Comparison::kLt, flush, "lt", ftz, types),   \
      COMPARE_SET(T, Comparison::kLe, flush, "le", ftz, types),   \
      COMPARE_SET(T, Comparison::kGt, flush, "gt", ftz, types),   \
      COMPARE_SET(T, Comparison::kGe, flush, "ge", ftz, types),   \
      COMPARE_SET(T, Comparison::kEqu, flush, "equ", ftz, types), \
      COMPARE_SET(T, Comparison::kNeu, flush, "neu", ftz, types), \
      COMPARE_SET(T, Comparison::kLtu, flush, "ltu", ftz, types), \
      COMPARE_SET(T, Comparison::kLeu, flush, "leu", ftz, types), \
      COMPARE_SET(T, Comparison::kGtu, flush, "gtu", ftz, types), \
      COMPARE_SET(T, Comparison::kGeu, flush, "geu", ftz, types), \
      COMPARE_SET(T, Comparison::kNum, flush, "num", ftz, types), \
      COMPARE_SET(T, Comparison::kNan, flush, "nan", ftz, types)

constexpr Entry kEntries[] = {
    EQUAL(u16, "{b16|u16|s16}"),    EQUAL(u32, "{b32|u32|s32}"),       EQUAL(u64, "{b64|u64|s64}"),
    ORDER_UNSIGNED(u16, "u16"),     ORDER_UNSIGNED(u32, "u32"),        ORDER_UNSIGNED(u64, "u64"),
    ORDER_SIGNED(s16, "s16"),       ORDER_SIGNED(s32, "s32"),          ORDER_SIGNED(s64, "s64"),
    FLOAT(float, false, "", "f32"), FLOAT(float, true, ".ftz", "f32"), FLOAT(double, false, "", "f64"),
};

}  // namespace

Entries CROPDL_TARGET::compare() { return {"comparison", kEntries, sizeof kEntries / sizeof *kEntries}; }

}  // namespace cropdl::engine
