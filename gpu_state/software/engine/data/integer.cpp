// Rows of integer arithmetic, extended precision, bit fields and dot products. PTX ISA 9.0, "Integer
// Arithmetic Instructions", "Extended-Precision Integer Arithmetic Instructions".
#include "gpu_state/software/arithmetic/integer.h"

#include "gpu_state/software/engine/data/tables.h"

namespace cropdl::engine {
namespace {

template <class T>
constexpr T multiply_add_low(T a, T b, T c) {
  return add(multiply_low(a, b), c);
}
template <class T>
constexpr T multiply_add_high(T a, T b, T c) {
  return add(multiply_high(a, b), c);
}
template <class T>
constexpr Wide<T> multiply_add_wide(T a, T b, Wide<T> c) {
  return add(multiply_wide(a, b), c);
}
constexpr s32 add_saturated(s32 a, s32 b) { return clamp<s32>(s64(a) + b); }
constexpr s32 subtract_saturated(s32 a, s32 b) { return clamp<s32>(s64(a) - b); }
constexpr s32 multiply_add_high_saturated(s32 a, s32 b, s32 c) {
  return clamp<s32>(s64(multiply_high(a, b)) + c);
}
constexpr s32 multiply_add_24_high_saturated(s32 a, s32 b, s32 c) {
  return clamp<s32>(s64(multiply_24_high(a, b)) + c);
}
template <class T>
constexpr T multiply_add_24_low(T a, T b, T c) {
  return add(multiply_24_low(a, b), c);
}
template <class T>
constexpr T multiply_add_24_high(T a, T b, T c) {
  return add(multiply_24_high(a, b), c);
}
template <class T>
constexpr T negate(T a) {
  return subtract(T(0), a);
}
template <class T>
constexpr T least_or_zero(T a, T b) {
  return greatest(T(0), least(a, b));
}
template <class T>
constexpr T greatest_or_zero(T a, T b) {
  return greatest(T(0), greatest(a, b));
}

// Two 16-bit values in a register.
template <class T, auto function>
constexpr u32 halves(u32 a, u32 b) {
  return u32(u16(function(T(a), T(b)))) | u32(u16(function(T(a >> 16), T(b >> 16)))) << 16;
}

template <class T>
constexpr Both<T, Carry> add_out(T a, T b) {
  return add_carry(a, b, false);
}
template <class T>
constexpr T add_in(T a, T b, Carry carry) {
  return add_carry(a, b, carry.is_set).first;
}
template <class T>
constexpr Both<T, Carry> add_in_out(T a, T b, Carry carry) {
  return add_carry(a, b, carry.is_set);
}
template <class T>
constexpr Both<T, Carry> subtract_out(T a, T b) {
  return subtract_carry(a, b, true);
}
template <class T>
constexpr T subtract_in(T a, T b, Carry carry) {
  return subtract_carry(a, b, carry.is_set).first;
}
template <class T>
constexpr Both<T, Carry> subtract_in_out(T a, T b, Carry carry) {
  return subtract_carry(a, b, carry.is_set);
}
// mad.cc and madc: the low or high half of the product, then the sum with carry. The high half depends on the
// sign.
template <class T, bool high>
constexpr Unsigned<T> half_product(T a, T b) {
  return Unsigned<T>(high ? multiply_high(a, b) : multiply_low(a, b));
}
template <class T, bool high>
constexpr Both<Unsigned<T>, Carry> multiply_add_out(T a, T b, Unsigned<T> c) {
  return add_carry(half_product<T, high>(a, b), c, false);
}
template <class T, bool high>
constexpr Unsigned<T> multiply_add_in(T a, T b, Unsigned<T> c, Carry carry) {
  return add_carry(half_product<T, high>(a, b), c, carry.is_set).first;
}
template <class T, bool high>
constexpr Both<Unsigned<T>, Carry> multiply_add_in_out(T a, T b, Unsigned<T> c, Carry carry) {
  return add_carry(half_product<T, high>(a, b), c, carry.is_set);
}

// Both signednesses, if their bits are the same.
#define SAME(U, both)                                                                                  \
  row<add<U>>("add.$", both), row<subtract<U>>("sub.$", both), row<multiply_low<U>>("mul.lo.$", both), \
      row<multiply_add_low<U>>("mad.lo.$", both)
#define EACH(T, name)                                                                   \
  row<multiply_high<T>>("mul.hi.$", name), row<multiply_add_high<T>>("mad.hi.$", name), \
      row<sum_of_difference<T>>("sad.$", name), row<divide<T>>("div.$", name),          \
      row<remainder<T>>("rem.$", name), row<least<T>>("min.$", name), row<greatest<T>>("max.$", name)
#define SIGNED(T, name) row<absolute<T>>("abs.$", name), row<negate<T>>("neg.$", name)
#define WIDE(T, name) row<multiply_wide<T>>("mul.wide.$", name), row<multiply_add_wide<T>>("mad.wide.$", name)
#define MULTIPLY_24(T, name)                                                                 \
  row<multiply_24_low<T>>("mul24.lo.$", name), row<multiply_24_high<T>>("mul24.hi.$", name), \
      row<multiply_add_24_low<T>>("mad24.lo.$", name), row<multiply_add_24_high<T>>("mad24.hi.$", name)
#define CARRY(U, both)                                                                                      \
  row<add_out<U>>("add.cc.$", both), row<add_in<U>>("addc.$", both), row<add_in_out<U>>("addc.cc.$", both), \
      row<subtract_out<U>>("sub.cc.$", both), row<subtract_in<U>>("subc.$", both),                          \
      row<subtract_in_out<U>>("subc.cc.$", both)
#define MULTIPLY_CARRY(T, name)                                                                              \
  row<multiply_add_out<T, false>>("mad.lo.cc.$", name), row<multiply_add_out<T, true>>("mad.hi.cc.$", name), \
      row<multiply_add_in<T, false>>("madc.lo.$", name), row<multiply_add_in<T, true>>("madc.hi.$", name),   \
      row<multiply_add_in_out<T, false>>("madc.lo.cc.$", name),                                              \
      row<multiply_add_in_out<T, true>>("madc.hi.cc.$", name)
#define FIELDS(T, name) row<extract_field<T>>("bfe.$", name)
#define FIND(T, name) \
  row<find_bit<T, false>>("bfind.$", name), row<find_bit<T, true>>("bfind.shiftamt.$", name)

constexpr Entry kEntries[] = {
    SAME(u16, "{u16|s16}"),
    SAME(u32, "{u32|s32}"),
    SAME(u64, "{u64|s64}"),
    EACH(u16, "u16"),
    EACH(s16, "s16"),
    EACH(u32, "u32"),
    EACH(s32, "s32"),
    EACH(u64, "u64"),
    EACH(s64, "s64"),
    SIGNED(s16, "s16"),
    SIGNED(s32, "s32"),
    SIGNED(s64, "s64"),
    WIDE(u16, "u16"),
    WIDE(s16, "s16"),
    WIDE(u32, "u32"),
    WIDE(s32, "s32"),
    MULTIPLY_24(u32, "u32"),
    MULTIPLY_24(s32, "s32"),
    row<add_saturated>("add.sat.s32"),
    row<subtract_saturated>("sub.sat.s32"),
    row<multiply_add_high_saturated>("mad.hi.sat.s32"),
    row<multiply_add_24_high_saturated>("mad24.hi.sat.s32"),
    CARRY(u32, "{u32|s32}"),
    CARRY(u64, "{u64|s64}"),
    MULTIPLY_CARRY(u32, "u32"),
    MULTIPLY_CARRY(s32, "s32"),
    MULTIPLY_CARRY(u64, "u64"),
    MULTIPLY_CARRY(s64, "s64"),
    row<halves<u16, add<u16>>>("add.{u16x2|s16x2}"),
    row<halves<u16, least<u16>>>("min.u16x2"),
    row<halves<s16, least<s16>>>("min.s16x2"),
    row<halves<u16, greatest<u16>>>("max.u16x2"),
    row<halves<s16, greatest<s16>>>("max.s16x2"),
    row<halves<s16, least_or_zero<s16>>>("min.relu.s16x2"),
    row<halves<s16, greatest_or_zero<s16>>>("max.relu.s16x2"),
    row<least_or_zero<s32>>("min.relu.s32"),
    row<greatest_or_zero<s32>>("max.relu.s32"),
    row<population<u32>>("popc.b32"),
    row<population<u64>>("popc.b64"),
    row<leading_zeros<u32>>("clz.b32"),
    row<leading_zeros<u64>>("clz.b64"),
    FIND(u32, "u32"),
    FIND(s32, "s32"),
    FIND(u64, "u64"),
    FIND(s64, "s64"),
    long_row<find_nth_set>("fns.b32"),
    row<reverse_bits<u32>>("brev.b32"),
    row<reverse_bits<u64>>("brev.b64"),
    FIELDS(u32, "u32"),
    FIELDS(s32, "s32"),
    FIELDS(u64, "u64"),
    FIELDS(s64, "s64"),
    row<insert_field<u32>>("bfi.b32"),
    row<insert_field<u64>>("bfi.b64"),
    row<bit_mask<false>>("bmsk.clamp.b32"),
    row<bit_mask<true>>("bmsk.wrap.b32"),
    row<extend<u32, false>>("szext.clamp.u32"),
    row<extend<u32, true>>("szext.wrap.u32"),
    row<extend<s32, false>>("szext.clamp.s32"),
    row<extend<s32, true>>("szext.wrap.s32"),
    row<dot_4<u8, u8>>("dp4a.u32.u32"),
    row<dot_4<u8, s8>>("dp4a.u32.s32"),
    row<dot_4<s8, u8>>("dp4a.s32.u32"),
    row<dot_4<s8, s8>>("dp4a.s32.s32"),
    row<dot_2<u16, u8, false>>("dp2a.lo.u32.u32"),
    row<dot_2<u16, s8, false>>("dp2a.lo.u32.s32"),
    row<dot_2<s16, u8, false>>("dp2a.lo.s32.u32"),
    row<dot_2<s16, s8, false>>("dp2a.lo.s32.s32"),
    row<dot_2<u16, u8, true>>("dp2a.hi.u32.u32"),
    row<dot_2<u16, s8, true>>("dp2a.hi.u32.s32"),
    row<dot_2<s16, u8, true>>("dp2a.hi.s32.u32"),
    row<dot_2<s16, s8, true>>("dp2a.hi.s32.s32"),
};

}  // namespace

Entries CROPDL_TARGET::integer() { return {"integer", kEntries, sizeof kEntries / sizeof *kEntries}; }

}  // namespace cropdl::engine
