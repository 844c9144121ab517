// f16 and bf16: every operation is computed in f64, exactly or rounded to odd, and then rounded once. A value
// is its bits in a u16; a pair is a u32. Source: PTX ISA 9.0, "Half Precision Floating Point Instructions".
// NaN results are 0x7fff, whatever the operands.
#pragma once

#include "gpu_state/software/arithmetic/rounding.h"

namespace cropdl::arithmetic {
inline namespace CROPDL_TARGET {

template <class F>
[[gnu::always_inline]] constexpr float widen(u16 a);
template <>
[[gnu::always_inline]] constexpr float widen<BF16>(u16 a) {
  return bits<float>(u32(a) << 16);
}
template <>
[[gnu::always_inline]] constexpr float widen<F16>(u16 a) {
  const u32 magnitude = u32(a & 0x7fff) << 13;
  // Shifts into f32's exponent range; the multiplication also normalises subnormals.
  const float finite = bits<float>(magnitude) * 0x1p112f;
  const u32 b = magnitude >= 0x0f800000 ? magnitude | 0x7f800000 : bits<u32>(finite);
  return bits<float>(b | u32(a & 0x8000) << 16);
}

// .ftz: f16 only.
template <class F, bool flush>
[[gnu::always_inline]] constexpr u16 flushed_half(u16 a) {
  return flush && !(a & F::infinity) ? a & 0x8000 : a;
}
template <class F, bool flush>
[[gnu::always_inline]] constexpr float half_in(u16 a) {
  return widen<F>(flushed_half<F, flush>(a));
}
enum class Limit { kNone, kSaturate, kRelu };  // .sat: [0, 1], NaN becomes 0; .relu: at least 0, NaN stays
template <class F, bool flush, Limit limit>
[[gnu::always_inline]] constexpr u16 half_out(double exact) {
  const u16 result = flushed_half<F, flush>(u16(narrow<F, Rounding::kNearest>(exact)));
  if (limit == Limit::kNone) return result;
  const bool is_nan = exact != exact, is_negative = result & 0x8000;
  if (limit == Limit::kRelu) return is_nan ? u16(F::nan) : is_negative ? u16(0) : result;
  constexpr u16 one = u16(u64(F::bias) << F::mantissa);
  return is_nan | is_negative ? u16(0) : result > one ? one : result;
}

template <class F, bool flush, Limit limit>
[[gnu::always_inline]] inline u16 add_half(u16 a, u16 b) {
  return half_out<F, flush, limit>(odd_sum(half_in<F, flush>(a), half_in<F, flush>(b)));
}
template <class F, bool flush, Limit limit>
[[gnu::always_inline]] inline u16 subtract_half(u16 a, u16 b) {
  return half_out<F, flush, limit>(odd_sum(half_in<F, flush>(a), -half_in<F, flush>(b)));
}
template <class F, bool flush, Limit limit>
[[gnu::always_inline]] inline u16 multiply_half(u16 a, u16 b) {
  return half_out<F, flush, limit>(double(half_in<F, flush>(a)) * double(half_in<F, flush>(b)));
}
template <class F, bool flush, Limit limit>
[[gnu::always_inline]] inline u16 fma_half(u16 a, u16 b, u16 c) {
  return half_out<F, flush, limit>(
      odd_sum(double(half_in<F, flush>(a)) * double(half_in<F, flush>(b)), half_in<F, flush>(c)));
}
template <class F, bool flush>
constexpr u16 negate_half(u16 a) {
  return flushed_half<F, flush>(a) ^ 0x8000;
}
template <class F, bool flush>
constexpr u16 absolute_half(u16 a) {
  return flushed_half<F, flush>(a) & 0x7fff;
}
template <class F, bool flush, bool nan, bool greatest, bool xor_sign>
[[gnu::always_inline]] constexpr u16 extreme_half(u16 a, u16 b) {
  a = flushed_half<F, flush>(a), b = flushed_half<F, flush>(b);
  const u16 sign = (a ^ b) & 0x8000;
  if (xor_sign) a &= 0x7fff, b &= 0x7fff;
  const float x = widen<F>(a), y = widen<F>(b);
  const bool first = greatest ? x > y : x < y, second = greatest ? x < y : x > y;
  const u16 ordered = first ? a : second ? b : u16(greatest ? a & b : a | b);
  const bool a_nan = x != x, b_nan = y != y;
  const bool is_nan = nan ? a_nan | b_nan : a_nan & b_nan;
  const u16 result = a_nan ? b : b_nan ? a : ordered;
  return is_nan ? u16(F::nan) : u16(result | (xor_sign ? sign : 0));
}

// The same function on both halves of registers.
template <u16 (*function)(u16)>
inline u32 each_half(u32 a) {
  return function(u16(a)) | u32(function(u16(a >> 16))) << 16;
}
template <u16 (*function)(u16, u16)>
inline u32 each_half(u32 a, u32 b) {
  return function(u16(a), u16(b)) | u32(function(u16(a >> 16), u16(b >> 16))) << 16;
}
template <u16 (*function)(u16, u16, u16)>
inline u32 each_half(u32 a, u32 b, u32 c) {
  return function(u16(a), u16(b), u16(c)) | u32(function(u16(a >> 16), u16(b >> 16), u16(c >> 16))) << 16;
}

}  // namespace CROPDL_TARGET
}  // namespace cropdl::arithmetic
