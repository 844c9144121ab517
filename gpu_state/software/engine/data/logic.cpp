// Rows of logic, shifts, permutation, selection and moves. PTX ISA 9.0, "Logic and Shift Instructions",
// "selp", "slct", "mov", "prmt".
#include "gpu_state/software/arithmetic/integer.h"
#include "gpu_state/software/engine/data/tables.h"

namespace cropdl::engine {
namespace {

template <class T>
constexpr T bit_and(T a, T b) {
  return T(a & b);
}
template <class T>
constexpr T bit_or(T a, T b) {
  return T(a | b);
}
template <class T>
constexpr T bit_xor(T a, T b) {
  return T(a ^ b);
}
template <class T>
constexpr T bit_not(T a) {
  return T(~a);
}
template <class T>
constexpr T c_not(T a) {
  return a == 0;
}
template <>
constexpr bool bit_not(bool a) {
  return !a;
}
constexpr u32 logic_3_or_keep(u32 a, u32 b, u32 c, u32 table) { return logic_3(a, b, c, table); }
constexpr Both<u32, bool> logic_3_or(u32 a, u32 b, u32 c, u32 table, bool q) {
  const u32 d = logic_3(a, b, c, table);
  return {d, bool((d != 0) | q)};
}
constexpr Both<u32, bool> logic_3_and(u32 a, u32 b, u32 c, u32 table, bool q) {
  const u32 d = logic_3(a, b, c, table);
  return {d, bool((d != 0) & q)};
}

template <class T>
constexpr T move(T a) {
  return a;
}
template <class T>
constexpr T select(T a, T b, bool c) {
  return c ? a : b;
}
template <class T>
constexpr T select_by_sign(T a, T b, s32 c) {
  return c >= 0 ? a : b;
}
// -0 counts as zero, NaN as negative.
template <class T, bool flush>
constexpr T select_by_float(T a, T b, float c) {
  if (flush && __builtin_fabsf(c) < 0x1p-126f) return a;
  return c >= 0 ? a : b;
}

template <class Half, class Whole>
constexpr Whole pack_2(Half a, Half b) {
  return Whole(Whole(b) << kWidth<Half> | a);
}
template <class Half, class Whole>
constexpr Both<Half, Half> unpack_2(Whole a) {
  return {Half(a), Half(a >> kWidth<Half>)};
}
template <class Part, class Whole>
constexpr Whole pack_4(Part a, Part b, Part c, Part d) {
  constexpr int w = kWidth<Part>;
  return Whole(Whole(a) | Whole(b) << w | Whole(c) << (2 * w) | Whole(d) << (3 * w));
}
template <class Part, class Whole>
constexpr Four<Part> unpack_4(Whole a) {
  constexpr int w = kWidth<Part>;
  return {Part(a), Part(a >> w), Part(a >> (2 * w)), Part(a >> (3 * w))};
}
// Bytes of a b32 lie in 16-bit registers.
constexpr u32 pack_bytes(u16 a, u16 b, u16 c, u16 d) {
  return u32(a & 255) | u32(b & 255) << 8 | u32(c & 255) << 16 | u32(d & 255) << 24;
}
constexpr Four<u16> unpack_bytes(u32 a) {
  return {u16(a & 255), u16(a >> 8 & 255), u16(a >> 16 & 255), u16(a >> 24)};
}
constexpr u16 pack_two_bytes(u16 a, u16 b) { return u16((a & 255) | b << 8); }
constexpr Both<u16, u16> unpack_two_bytes(u16 a) { return {u16(a & 255), u16(a >> 8)}; }

#define LOGIC(T, name)                                                                          \
  row<bit_and<T>>("and.$", name), row<bit_or<T>>("or.$", name), row<bit_xor<T>>("xor.$", name), \
      row<bit_not<T>>("not.$", name)
#define SHIFTS(U, S, b, u, s)                                                                       \
  row<c_not<U>>("cnot." b), row<shift_left<U>>("shl." b), row<shift_right<U>>("shr.{" b "|" u "}"), \
      row<shift_right<S>>("shr." s)
#define PICK(T, name)                                                         \
  row<select<T>>("selp.$", name), row<select_by_sign<T>>("slct.$.s32", name), \
      row<select_by_float<T, false>>("slct.$.f32", name),                     \
      row<select_by_float<T, true>>("slct.ftz.$.f32", name)

constexpr Entry kEntries[] = {
    LOGIC(u16, "b16"),
    LOGIC(u32, "b32"),
    LOGIC(u64, "b64"),
    LOGIC(bool, "pred"),
    SHIFTS(u16, s16, "b16", "u16", "s16"),
    SHIFTS(u32, s32, "b32", "u32", "s32"),
    SHIFTS(u64, s64, "b64", "u64", "s64"),
    row<funnel_left<false>>("shf.l.clamp.b32"),
    row<funnel_left<true>>("shf.l.wrap.b32"),
    row<funnel_right<false>>("shf.r.clamp.b32"),
    row<funnel_right<true>>("shf.r.wrap.b32"),
    row<logic_3_or_keep>("lop3.b32"),
    row<logic_3_or>("lop3.or.b32"),
    row<logic_3_and>("lop3.and.b32"),
    row<static_cast<u32 (*)(u32, u32, u32)>(permute)>("prmt.b32"),
    row<permute<Permute::kForward4>>("prmt.b32.f4e"),
    row<permute<Permute::kBackward4>>("prmt.b32.b4e"),
    row<permute<Permute::kReplicate8>>("prmt.b32.rc8"),
    row<permute<Permute::kEdgeLeft>>("prmt.b32.ecl"),
    row<permute<Permute::kEdgeRight>>("prmt.b32.ecr"),
    row<permute<Permute::kReplicate16>>("prmt.b32.rc16"),
    PICK(u16, "{b16|u16|s16}"),
    PICK(u32, "{b32|u32|s32}"),
    PICK(u64, "{b64|u64|s64}"),
    PICK(float, "f32"),
    PICK(double, "f64"),
    row<move<bool>>("mov.pred"),
    row<move<u16>>("mov.{b16|u16|s16}"),
    row<move<u32>>("mov.{b32|u32|s32}"),
    row<move<u64>>("mov.{b64|u64|s64}"),
    row<move<u128>>("mov.b128"),
    row<move<float>>("mov.f32"),
    row<move<double>>("mov.f64"),
    row<pack_2<u16, u32>>("mov.b32"),
    row<pack_2<u32, u64>>("mov.b64"),
    row<pack_2<u64, u128>>("mov.b128"),
    row<unpack_2<u16, u32>>("mov.b32"),
    row<unpack_2<u32, u64>>("mov.b64"),
    row<unpack_2<u64, u128>>("mov.b128"),
    row<pack_4<u16, u64>>("mov.b64"),
    row<pack_4<u32, u128>>("mov.b128"),
    row<unpack_4<u16, u64>>("mov.b64"),
    row<unpack_4<u32, u128>>("mov.b128"),
    row<pack_bytes>("mov.b32"),
    row<unpack_bytes>("mov.b32"),
    row<pack_two_bytes>("mov.b16"),
    row<unpack_two_bytes>("mov.b16"),
};

}  // namespace

Entries CROPDL_TARGET::logic() { return {"logic", kEntries, sizeof kEntries / sizeof *kEntries}; }

}  // namespace cropdl::engine
