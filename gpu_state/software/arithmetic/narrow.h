// Conversions to and from formats of 16 bits and less, and conversions in directed rounding. Source: PTX ISA
// 9.0, "cvt", "cvt.pack".
#pragma once

#include "gpu_state/software/arithmetic/convert.h"
#include "gpu_state/software/arithmetic/half.h"

namespace cropdl::arithmetic {
inline namespace CROPDL_TARGET {

enum class Bound { kNone, kSaturate, kRelu, kFinite, kReluFinite };

// The destination's bits for an exact value. F is F16, BF16 or TF32; Bits is the register's type.
template <class Bits, class F, Rounding rounding, Bound bound>
[[gnu::always_inline]] constexpr Bits narrowed(double exact) {
  constexpr bool finite = bound == Bound::kFinite || bound == Bound::kReluFinite;
  constexpr bool relu = bound == Bound::kRelu || bound == Bound::kReluFinite;
  if (relu) exact = exact < 0 || exact == 0 ? 0.0 : exact;
  if (bound == Bound::kSaturate) exact = exact > 0 ? (exact < 1 ? exact : 1.0) : 0.0;
  return Bits(narrow<F, rounding, finite>(exact));
}
template <class F, Rounding rounding, Bound bound, bool flush>
inline u16 half_from_f32(float a) {
  return narrowed<u16, F, rounding, bound>(in<flush>(a));
}
template <class F, Rounding rounding, Bound bound>
inline u16 half_from_f64(double a) {
  return narrowed<u16, F, rounding, bound>(a);
}
template <class D, class S, Rounding rounding, Bound bound>
inline u16 half_from_half(u16 a) {
  return narrowed<u16, D, rounding, bound>(widen<S>(a));
}
template <class F, class S, Rounding rounding, Bound bound>
constexpr u16 half_from_integer(S a) {
  return narrowed<u16, F, rounding, bound>(odd_integer(a));
}
template <Rounding rounding, Bound bound>
inline u32 tf32_from_f32(float a) {
  return narrowed<u32, TF32, rounding, bound>(a);
}
template <class F, Rounding rounding, Bound bound>
inline u32 halves_from_f32(float a, float b) {
  return u32(narrowed<u16, F, rounding, bound>(a)) << 16 | narrowed<u16, F, rounding, bound>(b);
}
template <class F, bool saturate>
inline float f32_from_half(u16 a) {
  return out<false, saturate>(widen<F>(a));
}
template <class F, bool saturate>
inline double f64_from_half(u16 a) {
  return saturated_to(double(widen<F>(a)), saturate);
}
template <class D, class F, Integral rounding, bool flush>
inline D integer_from_half(u16 a) {
  return to_integer<D>(integral<rounding>(half_in<F, flush>(a)));
}
template <class F, Integral rounding, Bound bound, bool flush>
inline u16 integral_half(u16 a) {
  return narrowed<u16, F, Rounding::kNearest, bound>(integral<rounding>(half_in<F, flush>(a)));
}
template <class F, Bound bound, bool flush>
inline u16 half_from_same(u16 a) {
  return narrowed<u16, F, Rounding::kNearest, bound>(half_in<F, flush>(a));
}

// Two 8-bit values, always finite.
template <class F, Bound bound>
inline u16 bytes_from_f32(float a, float b) {
  return u16(narrowed<u16, F, Rounding::kNearest, bound>(a) << 8 |
             narrowed<u16, F, Rounding::kNearest, bound>(b));
}
template <class F, Bound bound>
inline u16 bytes_from_halves(u32 a) {
  return bytes_from_f32<F, bound>(widen<F16>(u16(a >> 16)), widen<F16>(u16(a)));
}
template <class F>
constexpr u16 half_from_byte(u32 a) {
  const u32 magnitude = a & 0x7f, sign = (a & 0x80) << 8;
  if (magnitude == 0x7f || (F::has_infinity && magnitude > F::infinity)) return u16(F16::nan);
  if constexpr (F::exponent == 5) return u16(sign | magnitude << 8);  // the exponent of f16
  const u32 exponent = magnitude >> F::mantissa, fraction = magnitude & ((1 << F::mantissa) - 1);
  const double value = exponent ? double(fraction + (1 << F::mantissa)) : double(fraction) * 2;
  // 2^(exponent - bias - mantissa), the unit of the subnormal above.
  const double scale = bits<double>(u64(1023 + int(exponent) - F::bias - F::mantissa) << 52);
  return u16(sign | narrow<F16, Rounding::kNearest>(value * scale));
}
template <class F, bool relu>
inline u32 halves_from_bytes(u16 a) {
  u32 upper = half_from_byte<F>(a >> 8), lower = half_from_byte<F>(a & 255);
  if (relu) {
    if (upper & 0x8000) upper = 0;
    if (lower & 0x8000) lower = 0;
  }
  return upper << 16 | lower;
}

// f32 and f64 in directed rounding.
template <Rounding rounding, bool flush, bool saturate>
inline float f32_from_f64_directed(double a) {
  return f32_of<rounding, flush, saturate>(a);
}
template <class S, Rounding rounding, bool saturate>
constexpr float f32_from_integer_directed(S a) {
  return f32_of<rounding, false, saturate>(odd_integer(a));
}
template <class S, Rounding rounding, bool saturate>
constexpr double f64_from_integer_directed(S a) {
  double nearest = double(a);
  if constexpr (sizeof(S) == 8) {
    // If rounding to nearest went to the wrong side, it is one unit too high or too low; both are integers
    // below 2^65.
    const s128 exact = a, got = s128(nearest);
    const bool is_negative = exact < 0;
    const bool too_high = got > exact, too_low = got < exact;
    const bool down = rounding == Rounding::kDown || (rounding == Rounding::kZero && !is_negative);
    const u64 b = bits<u64>(nearest);
    if (down && too_high) nearest = bits<double>(is_negative ? b + 1 : b - 1);
    if (!down && too_low) nearest = bits<double>(is_negative ? b - 1 : b + 1);
  }
  return saturated_to(nearest, saturate);
}

// cvt.pack: a and b, saturated, into the low bits; c's lower part above them.
template <class D>
constexpr u32 pack_words(s32 a, s32 b) {
  return u32(u16(clamp<D>(a))) << 16 | u16(clamp<D>(b));
}
template <int width, bool is_signed>
constexpr u32 pack_bits(s32 a, s32 b, u32 c) {
  constexpr s32 most = is_signed ? (1 << (width - 1)) - 1 : (1 << width) - 1;
  constexpr s32 least_value = is_signed ? -(1 << (width - 1)) : 0;
  constexpr u32 mask = (1 << width) - 1;
  const s32 x = a > most ? most : a < least_value ? least_value : a;
  const s32 y = b > most ? most : b < least_value ? least_value : b;
  return c << (2 * width) | (u32(x) & mask) << width | (u32(y) & mask);
}

}  // namespace CROPDL_TARGET
}  // namespace cropdl::arithmetic
