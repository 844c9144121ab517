// PTX's integer arithmetic, logic, shifts and bit fields. Source: PTX ISA 9.0, "Integer Arithmetic
// Instructions", "Extended-Precision Integer Arithmetic Instructions", "Logic and Shift Instructions". Where
// PTX leaves a result open, the comment states what devices return.
#pragma once

#include "gpu_state/software/arithmetic/target.h"

namespace cropdl::arithmetic {
inline namespace CROPDL_TARGET {

template <class T>
constexpr T add(T a, T b) {
  return T(Unsigned<T>(a) + Unsigned<T>(b));
}
template <class T>
constexpr T subtract(T a, T b) {
  return T(Unsigned<T>(a) - Unsigned<T>(b));
}
template <class T>
constexpr T multiply_low(T a, T b) {
  // 16-bit products would be computed in int, which can overflow.
  if constexpr (sizeof(T) < 4)
    return T(u32(a) * u32(b));
  else
    return T(Unsigned<T>(a) * Unsigned<T>(b));
}
template <class T>
constexpr Wide<T> multiply_wide(T a, T b) {
  return Wide<T>(Wide<T>(a) * Wide<T>(b));
}
template <class T>
constexpr T multiply_high(T a, T b) {
  return T(multiply_wide(a, b) >> kWidth<T>);
}
// Saturates to T.
template <class T>
constexpr T clamp(s64 value) {
  return value < s64(kLeast<T>) ? kLeast<T> : value > s64(kMost<T>) ? kMost<T> : T(value);
}

// 24-bit products: the low 32 bits of the 48-bit product, or bits 16 to 47. Operand bits above 23 are
// ignored.
template <class T>
constexpr s64 product_24(T a, T b) {
  if constexpr (kSigned<T>)
    return s64(s32(u32(a) << 8) >> 8) * (s32(u32(b) << 8) >> 8);
  else
    return s64(u64(a & 0xffffff) * (b & 0xffffff));
}
template <class T>
constexpr T multiply_24_low(T a, T b) {
  return T(product_24(a, b));
}
template <class T>
constexpr T multiply_24_high(T a, T b) {
  return T(product_24(a, b) >> 16);
}

// The absolute difference plus c.
template <class T>
constexpr T sum_of_difference(T a, T b, T c) {
  return add<T>(c, a < b ? subtract(b, a) : subtract(a, b));
}

// Division by zero: all bits set, as on devices (PTX leaves it open); minimum / -1: the minimum.
template <class T>
constexpr T divide(T a, T b) {
  if (b == 0) return T(~T(0));
  if (kSigned<T> && b == T(-1)) return subtract(T(0), a);
  return T(a / b);
}
// Remainder by zero: the dividend.
template <class T>
constexpr T remainder(T a, T b) {
  if (b == 0) return a;
  if (kSigned<T> && b == T(-1)) return 0;
  return T(a % b);
}

template <class T>
constexpr T absolute(T a) {
  return a < 0 ? subtract(T(0), a) : a;
}
template <class T>
constexpr T least(T a, T b) {
  return a < b ? a : b;
}
template <class T>
constexpr T greatest(T a, T b) {
  return a > b ? a : b;
}

// Shift amounts have 32 bits; amounts beyond the width act like the width.
template <class T>
constexpr T shift_left(T a, u32 by) {
  return by >= u32(kWidth<T>) ? T(0) : T(a << by);
}
template <class T>
constexpr T shift_right(T a, u32 by) {
  if constexpr (kSigned<T>)
    return T(a >> (by >= u32(kWidth<T>) ? u32(kWidth<T>) - 1 : by));
  else
    return by >= u32(kWidth<T>) ? T(0) : T(a >> by);
}
// Funnel shift of b:a: the upper word after a left shift, the lower after a right shift.
template <bool wrap>
constexpr u32 funnel_left(u32 a, u32 b, u32 by) {
  by = wrap ? by & 31 : by > 32 ? 32 : by;
  return u32(((u64(b) << 32 | a) << by) >> 32);
}
template <bool wrap>
constexpr u32 funnel_right(u32 a, u32 b, u32 by) {
  by = wrap ? by & 31 : by > 32 ? 32 : by;
  return u32((u64(b) << 32 | a) >> by);
}

constexpr u32 logic_3(u32 a, u32 b, u32 c, u32 table) {
  // One term per row of the table; its index is the bits of a, b, c.
  u32 result = 0;
  for (u32 row = 0; row < 8; ++row) {
    const u32 here = (row & 4 ? a : ~a) & (row & 2 ? b : ~b) & (row & 1 ? c : ~c);
    result |= here & (0u - (table >> row & 1));
  }
  return result;
}

template <class T>
constexpr u32 population(T a) {
  return u32(__builtin_popcountll(a));
}
template <class T>
constexpr u32 leading_zeros(T a) {
  if constexpr (sizeof(T) == 8)
    return a ? u32(__builtin_clzll(a)) : 64;
  else
    return a ? u32(__builtin_clz(a)) : 32;
}
template <class T>
constexpr T reverse_bits(T a) {
  constexpr T all = ~T(0);
  for (int step = kWidth<T> / 2; step > 0; step /= 2) {
    // Every other group of `step` bits, starting with the lowest.
    T groups = all;
    for (int wider = kWidth<T> / 2; wider >= step; wider /= 2) groups ^= T(groups << wider);
    a = (a >> step & groups) | ((a & groups) << step);
  }
  return a;
}
// The position of the most significant bit that differs from the sign; shift_amount: the shift that moves it
// to the top. None: all bits set.
template <class T, bool shift_amount>
constexpr u32 find_bit(T a) {
  const Unsigned<T> value = Unsigned<T>(kSigned<T> && a < 0 ? ~a : a);
  if (value == 0) return ~u32(0);
  const u32 zeros = leading_zeros(value);
  return shift_amount ? zeros : u32(kWidth<T>) - 1 - zeros;
}
// The position of the n-th set bit of the mask from base on, upwards for n > 0, downwards for n < 0; n = 0:
// base itself if it is set.
constexpr u32 find_nth_set(u32 mask, u32 base, s32 n) {
  base &= 31;
  if (n == 0) return mask >> base & 1 ? base : ~u32(0);
  const int step = n < 0 ? -1 : 1;
  s64 left = n < 0 ? -s64(n) : s64(n);
  if (left > 32) return ~u32(0);
  for (int at = int(base); at >= 0 && at < 32; at += step)
    if ((mask >> at & 1) && --left == 0) return u32(at);
  return ~u32(0);
}
// Position and length are taken modulo 256. Beyond the top, a signed field is filled with its sign.
template <class T>
constexpr T extract_field(T a, u32 position, u32 length) {
  position &= 255;
  length &= 255;
  constexpr u32 top = kWidth<T> - 1;
  using U = Unsigned<T>;
  if (length == 0) return 0;
  const u32 sign_at = position + length - 1 < top ? position + length - 1 : top;
  const U fill = kSigned<T> && (U(a) >> sign_at & 1) ? ~U(0) : U(0);
  U result = position > top ? U(0) : U(a) >> position;
  const u32 kept = position > top ? 0 : top - position + 1 < length ? top - position + 1 : length;
  const U mask = kept > top ? ~U(0) : (U(1) << kept) - 1;
  return T((result & mask) | (fill & ~mask));
}
template <class T>
constexpr T insert_field(T a, T b, u32 position, u32 length) {
  position &= 255;
  length &= 255;
  if (position >= u32(kWidth<T>) || length == 0) return b;
  const T mask = (length >= u32(kWidth<T>) ? ~T(0) : (T(1) << length) - 1) << position;
  return T((b & ~mask) | ((a << position) & mask));
}
template <bool wrap>
constexpr u32 bit_mask(u32 position, u32 length) {
  position = wrap ? position & 31 : position;
  length = wrap ? length & 31 : length;
  if (position > 31 || length == 0) return 0;
  return (length > 31 ? ~u32(0) : (u32(1) << length) - 1) << position;
}
// Keeps the low `length` bits, sign- or zero-extended.
template <class T, bool wrap>
constexpr T extend(T a, u32 length) {
  if (wrap) length &= 31;
  if (length == 0) return 0;
  if (length >= 32) return a;
  return T(T(u32(a) << (32 - length)) >> (32 - length));
}

// Dot products of bytes: `A` and `B` are s8 or u8.
template <class A, class B>
constexpr u32 dot_4(u32 a, u32 b, u32 c) {
  for (int i = 0; i < 4; ++i) c += u32(s32(A(a >> (8 * i))) * s32(B(b >> (8 * i))));
  return c;
}
// Two 16-bit words of a with two bytes of b, the lower or the upper ones.
template <class A, class B, bool upper>
constexpr u32 dot_2(u32 a, u32 b, u32 c) {
  for (int i = 0; i < 2; ++i) c += u32(s32(A(a >> (16 * i)))) * u32(s32(B(b >> (8 * i + (upper ? 16 : 0)))));
  return c;
}

// Selects bytes of b:a by nibbles; a nibble's top bit replicates the byte's sign instead.
constexpr u32 permute(u32 a, u32 b, u32 control) {
  const u64 bytes = u64(b) << 32 | a;
  u32 result = 0;
  for (int i = 0; i < 4; ++i) {
    const u32 pick = control >> (4 * i) & 15;
    const u32 byte = u32(bytes >> (8 * (pick & 7))) & 255;
    result |= (pick & 8 ? (byte & 128 ? 255u : 0u) : byte) << (8 * i);
  }
  return result;
}
enum class Permute { kForward4, kBackward4, kReplicate8, kEdgeLeft, kEdgeRight, kReplicate16 };
template <Permute mode>
constexpr u32 permute(u32 a, u32 b, u32 control) {
  const u32 c = control & 3;
  u32 nibbles = 0;
  for (u32 i = 0; i < 4; ++i) {
    u32 pick = 0;
    if (mode == Permute::kForward4) pick = c + i;
    if (mode == Permute::kBackward4) pick = (c - i) & 7;
    if (mode == Permute::kReplicate8) pick = c;
    if (mode == Permute::kEdgeLeft) pick = i > c ? i : c;
    if (mode == Permute::kEdgeRight) pick = i < c ? i : c;
    if (mode == Permute::kReplicate16) pick = (c & 1) * 2 + (i & 1);
    nibbles |= pick << (4 * i);
  }
  return permute(a, b, nibbles);
}

template <class T>
constexpr Both<T, Carry> add_carry(T a, T b, bool carry) {
  const T partial = T(a + b), sum = T(partial + carry);
  return {sum, {bool((partial < a) | (sum < partial))}};
}
// The carry flag of a subtraction is that of a + ~b + 1, so it is set if there is no borrow. PTX calls it
// "borrow", but nvcc's code for 128-bit divisions (sub.cc … addc) relies on this meaning.
template <class T>
constexpr Both<T, Carry> subtract_carry(T a, T b, bool carry) {
  return add_carry(a, T(~b), carry);
}

}  // namespace CROPDL_TARGET
}  // namespace cropdl::arithmetic
