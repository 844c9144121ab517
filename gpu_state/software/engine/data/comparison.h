// setp and set: a comparison over 32 lanes makes one mask. The rest of the instruction (combine it with a
// predicate, also write its opposite, spread it over a register) costs a few instructions.
#pragma once

#include "gpu_state/software/arithmetic/compare.h"
#include "gpu_state/software/engine/data/entry.h"

namespace cropdl::engine {
namespace {

// Compares registers: `view` converts a register's bits to the compared value.
template <Comparison comparison, auto view, class T>
[[gnu::noinline]] u32 compared(const T* a, const T* b) {
  Results<bool> results;
#pragma GCC ivdep
  for (int lane = 0; lane < kLanes; ++lane)
    results.set(lane, compare<comparison>(view(a[lane]), view(b[lane])));
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
template <Combine combine>
u32 third(Warp& warp, const Instruction& instruction, int operand) {
  return combine == Combine::kNone ? 0 : Source<bool>(warp, instruction, operand).mask;
}
inline void write_predicate(Warp& warp, const Instruction& instruction, int operand, u32 value, u32 active) {
  u32& p = *reinterpret_cast<u32*>(place(warp, instruction.operands[operand]));
  p = (p & ~active) | (value & active);
}

// setp.combine p, a, b, c: `written` predicates (p, or p and q; q gets the opposite comparison).
template <class T, auto view, Comparison comparison, Combine combine, int written>
void set_predicate(Warp& warp, const Instruction& instruction, u32 active) {
  const Source<T> a(warp, instruction, written), b(warp, instruction, written + 1);
  const u32 c = third<combine>(warp, instruction, written + 2);
  const u32 mask = compared<comparison, view>(a.values, b.values);
  write_predicate(warp, instruction, 0, combined<combine>(mask, c), active);
  if (written == 2) write_predicate(warp, instruction, 1, combined<combine>(~mask, c), active);
}
// setp of pairs: p for the lower values, q for the upper ones.
template <class T, auto lower, auto upper, Comparison comparison, Combine combine, int written>
void set_predicates(Warp& warp, const Instruction& instruction, u32 active) {
  const Source<T> a(warp, instruction, written), b(warp, instruction, written + 1);
  const u32 c = third<combine>(warp, instruction, written + 2);
  const u32 p = combined<combine>(compared<comparison, lower>(a.values, b.values), c);
  const u32 q = combined<combine>(compared<comparison, upper>(a.values, b.values), c);
  write_predicate(warp, instruction, 0, p, active);
  if (written == 2) write_predicate(warp, instruction, 1, q, active);
}

// Writes one of two values to each active lane.
template <class D>
[[gnu::noinline]] void spread(D* to, u32 mask, D truth, u32 active) {
#pragma GCC ivdep
  for (int lane = 0; lane < kLanes; ++lane)
    to[lane] = active >> lane & 1 ? (mask >> lane & 1 ? truth : D(0)) : to[lane];
}
// set: writes `truth` (all bits, or 1) where the comparison is true, otherwise 0.
template <class T, auto view, Comparison comparison, Combine combine, auto truth>
void set_register(Warp& warp, const Instruction& instruction, u32 active) {
  using D = std::remove_cv_t<decltype(truth)>;
  const Source<T> a(warp, instruction, 1), b(warp, instruction, 2);
  const u32 mask =
      combined<combine>(compared<comparison, view>(a.values, b.values), third<combine>(warp, instruction, 3));
  spread<D>(reinterpret_cast<D*>(place(warp, instruction.operands[0])), mask, truth, active);
}
[[gnu::noinline]] inline void spread_pair(u32* to, u32 low, u32 high, u32 truth, u32 active) {
  for (int lane = 0; lane < kLanes; ++lane) {
    const u32 value = (low >> lane & 1 ? truth & 0xffff : 0) | (high >> lane & 1 ? truth & 0xffff0000 : 0);
    to[lane] = active >> lane & 1 ? value : to[lane];
  }
}
template <class T, auto lower, auto upper, Comparison comparison, Combine combine, u32 truth>
void set_registers(Warp& warp, const Instruction& instruction, u32 active) {
  const Source<T> a(warp, instruction, 1), b(warp, instruction, 2);
  const u32 c = third<combine>(warp, instruction, 3);
  const u32 low = combined<combine>(compared<comparison, lower>(a.values, b.values), c);
  const u32 high = combined<combine>(compared<comparison, upper>(a.values, b.values), c);
  spread_pair(reinterpret_cast<u32*>(place(warp, instruction.operands[0])), low, high, truth, active);
}

// A comparison's four combinations; MACRO(combine, ".and", the kind of c).
#define CROPDL_EACH_COMBINE(MACRO, ...)                       \
  MACRO(Combine::kNone, "", Kind::kNone, __VA_ARGS__),        \
      MACRO(Combine::kAnd, ".and", Kind::kPred, __VA_ARGS__), \
      MACRO(Combine::kOr, ".or", Kind::kPred, __VA_ARGS__),   \
      MACRO(Combine::kXor, ".xor", Kind::kPred, __VA_ARGS__)
// The fourteen comparisons of floats; MACRO(comparison, "lt", …).
#define CROPDL_EACH_FLOAT_COMPARISON(MACRO, ...)                                                \
  MACRO(Comparison::kEq, "eq", __VA_ARGS__), MACRO(Comparison::kNe, "ne", __VA_ARGS__),         \
      MACRO(Comparison::kLt, "lt", __VA_ARGS__), MACRO(Comparison::kLe, "le", __VA_ARGS__),     \
      MACRO(Comparison::kGt, "gt", __VA_ARGS__), MACRO(Comparison::kGe, "ge", __VA_ARGS__),     \
      MACRO(Comparison::kEqu, "equ", __VA_ARGS__), MACRO(Comparison::kNeu, "neu", __VA_ARGS__), \
      MACRO(Comparison::kLtu, "ltu", __VA_ARGS__), MACRO(Comparison::kLeu, "leu", __VA_ARGS__), \
      MACRO(Comparison::kGtu, "gtu", __VA_ARGS__), MACRO(Comparison::kGeu, "geu", __VA_ARGS__), \
      MACRO(Comparison::kNum, "num", __VA_ARGS__), MACRO(Comparison::kNan, "nan", __VA_ARGS__)

// setp of one value: p, and p|q.
#define CROPDL_SETP(combine, c, of_c, T, view, comparison, name, ftz, types)                   \
  Entry {                                                                                      \
    "setp." name c ftz "." types, "", "", {Kind::kPred}, {Held<T>::kind, Held<T>::kind, of_c}, \
        set_predicate<T, view, comparison, combine, 1>                                         \
  }
#define CROPDL_SETP_BOTH(combine, c, of_c, T, view, comparison, name, ftz, types)                           \
  Entry {                                                                                                   \
    "setp." name c ftz "." types, "", "", {Kind::kPred, Kind::kPred}, {Held<T>::kind, Held<T>::kind, of_c}, \
        set_predicate<T, view, comparison, combine, 2>                                                      \
  }
#define CROPDL_SET(combine, c, of_c, T, view, comparison, name, ftz, types, destination, truth)        \
  Entry {                                                                                              \
    "set." name c ftz "." destination "." types, "", "", {sizeof(truth) == 2 ? Kind::k16 : Kind::k32}, \
        {Held<T>::kind, Held<T>::kind, of_c}, set_register<T, view, comparison, combine, truth>        \
  }

}  // namespace
}  // namespace cropdl::engine
