// f32 and f64 rounded to nearest even, and PTX's additions to IEEE: flushing, saturation, canonical NaN.
// exact.h has directed rounding of f64. Source: PTX ISA 9.0, "Floating Point Instructions". The compiler must
// not contract, must not assume absence of NaN, and rounds to nearest.
//
// .ftz: subnormal operands are read as zero of their sign, and results that are subnormal after rounding are
// written as such a zero. NaN: f32 results are 0x7fffffff; f64 passes on the first NaN operand, made quiet,
// and otherwise makes 0xfff8000000000000.
#pragma once

#include "gpu_state/software/arithmetic/target.h"

namespace cropdl::arithmetic {
inline namespace CROPDL_TARGET {

constexpr u32 kNaN32 = 0x7fffffff;
constexpr u64 kNaN64 = 0xfff8000000000000;

[[gnu::always_inline]] constexpr float flushed(float a) {
  const u32 b = bits<u32>(a);
  return bits<float>(b & 0x7f800000 ? b : b & 0x80000000);
}
template <bool flush>
[[gnu::always_inline]] constexpr float in(float a) {
  return flush ? flushed(a) : a;
}
// Clamps to [0, 1]; NaN and -0 become +0.
[[gnu::always_inline]] constexpr float saturated(float a) { return a > 0 ? (a < 1 ? a : 1.0f) : 0.0f; }
template <bool flush, bool saturate>
[[gnu::always_inline]] constexpr float out(float a) {
  if (flush) a = flushed(a);
  if (saturate) return saturated(a);
  return bits<float>(a != a ? kNaN32 : bits<u32>(a));
}
// f64: `a` and `b` are the operands, in the order of their precedence as NaN.
[[gnu::always_inline]] constexpr double quiet(double a) { return bits<double>(bits<u64>(a) | u64(1) << 51); }
[[gnu::always_inline]] constexpr double out(double result, double a) {
  return a != a ? quiet(a) : bits<double>(result != result ? kNaN64 : bits<u64>(result));
}
[[gnu::always_inline]] constexpr double out(double result, double a, double b) {
  return a != a ? quiet(a) : out(result, b);
}
[[gnu::always_inline]] constexpr double out(double result, double a, double b, double c) {
  return a != a ? quiet(a) : out(result, b, c);
}

// a * b + c, rounded once.
[[gnu::always_inline]] inline double fused(double a, double b, double c) { return __builtin_fma(a, b, c); }
[[gnu::always_inline]] inline float fused(float a, float b, float c) {
#ifdef __FMA__
  return __builtin_fmaf(a, b, c);
#else
  // The product is exact in f64. The sum is rounded to odd there, so that the second rounding to f32 is
  // correct (Boldo and Melquiond, "Emulation of FMA and correctly rounded sums: proved algorithms using
  // rounding to odd"). Non-finite results need no correction.
  const double product = double(a) * double(b), addend = c;
  const double sum = product + addend;
  const double from_product = sum - addend, from_addend = sum - from_product;
  const double error = (product - from_product) + (addend - from_addend);
  const u64 b64 = bits<u64>(sum);
  // One unit away from zero or towards it, to the side of the exact sum.
  const bool is_up = (error > 0) == (sum > 0);
  const bool is_inexact = error == error && error != 0 && (b64 & 1) == 0;
  return float(bits<double>(is_inexact ? (is_up ? b64 + 1 : b64 - 1) : b64));
#endif
}

template <bool flush, bool saturate>
inline float add_f32(float a, float b) {
  return out<flush, saturate>(in<flush>(a) + in<flush>(b));
}
template <bool flush, bool saturate>
inline float subtract_f32(float a, float b) {
  return out<flush, saturate>(in<flush>(a) - in<flush>(b));
}
template <bool flush, bool saturate>
inline float multiply_f32(float a, float b) {
  return out<flush, saturate>(in<flush>(a) * in<flush>(b));
}
template <bool flush, bool saturate>
inline float fma_f32(float a, float b, float c) {
  return out<flush, saturate>(fused(in<flush>(a), in<flush>(b), in<flush>(c)));
}
template <bool flush>
inline float divide_f32(float a, float b) {
  return out<flush, false>(in<flush>(a) / in<flush>(b));
}
template <bool flush>
inline float reciprocal_f32(float a) {
  return out<flush, false>(1.0f / in<flush>(a));
}
template <bool flush>
inline float root_f32(float a) {
  return out<flush, false>(__builtin_sqrtf(in<flush>(a)));
}
inline double add_f64(double a, double b) { return out(a + b, a, b); }
inline double subtract_f64(double a, double b) { return out(a - b, a, b); }
inline double multiply_f64(double a, double b) { return out(a * b, a, b); }
inline double fma_f64(double a, double b, double c) { return out(fused(a, b, c), a, b, c); }
inline double divide_f64(double a, double b) { return out(a / b, a, b); }
inline double reciprocal_f64(double a) { return out(1.0 / a, a); }
inline double root_f64(double a) { return out(__builtin_sqrt(a), a); }

// For NaN, only the sign changes (PTX: unspecified).
template <bool flush>
constexpr float negate_f32(float a) {
  return bits<float>(bits<u32>(in<flush>(a)) ^ 0x80000000);
}
template <bool flush>
constexpr float absolute_f32(float a) {
  return bits<float>(bits<u32>(in<flush>(a)) & 0x7fffffff);
}
constexpr double negate_f64(double a) { return bits<double>(bits<u64>(a) ^ (u64(1) << 63)); }
constexpr double absolute_f64(double a) { return bits<double>(bits<u64>(a) & ~(u64(1) << 63)); }
// The sign of a with the magnitude of b.
constexpr float copy_sign_f32(float a, float b) {
  return bits<float>((bits<u32>(a) & 0x80000000) | (bits<u32>(b) & 0x7fffffff));
}
constexpr double copy_sign_f64(double a, double b) {
  constexpr u64 sign = u64(1) << 63;
  return bits<double>((bits<u64>(a) & sign) | (bits<u64>(b) & ~sign));
}

// With one NaN: the other operand, or with .NaN a NaN. -0 is less than +0. U is the type of the bits.
template <class U, class T, bool nan, bool greatest>
[[gnu::always_inline]] constexpr T extreme(T a, T b, T canonical) {
  const bool first = greatest ? a > b : a < b, second = greatest ? a < b : a > b;
  // Neither is less: they are equal (only the signs of zeros may differ), or unordered.
  const U tie = greatest ? bits<U>(a) & bits<U>(b) : bits<U>(a) | bits<U>(b);
  const T ordered = first ? a : second ? b : bits<T>(tie);
  if (nan) return (a != a) | (b != b) ? canonical : ordered;
  return a != a ? (b != b ? canonical : b) : b != b ? a : ordered;
}
template <bool flush, bool nan, bool greatest, bool xor_sign>
constexpr float extreme_f32(float a, float b) {
  a = in<flush>(a), b = in<flush>(b);
  const u32 sign = (bits<u32>(a) ^ bits<u32>(b)) & 0x80000000;
  if (xor_sign) a = absolute_f32<false>(a), b = absolute_f32<false>(b);
  const float result = extreme<u32, float, nan, greatest>(a, b, bits<float>(kNaN32));
  if (!xor_sign) return result;
  return result != result ? bits<float>(kNaN32) : bits<float>(bits<u32>(result) | sign);
}
template <bool greatest>
constexpr double extreme_f64(double a, double b) {
  return extreme<u64, double, false, greatest>(a, b, quiet(a));
}

// testp.
enum class Test { kFinite, kInfinite, kNumber, kNotANumber, kNormal, kSubnormal };
template <class T, Test test>
constexpr bool is(T a) {
  using U = std::conditional_t<sizeof(T) == 4, u32, u64>;
  constexpr U exponent = sizeof(T) == 4 ? U(0x7f800000) : U(0x7ff0000000000000);
  const U magnitude = U(bits<U>(a) << 1) >> 1;
  switch (test) {
    case Test::kFinite:
      return magnitude < exponent;
    case Test::kInfinite:
      return magnitude == exponent;
    case Test::kNumber:
      return magnitude <= exponent;
    case Test::kNotANumber:
      return magnitude > exponent;
    case Test::kNormal:
      return magnitude < exponent && (magnitude & exponent);
    case Test::kSubnormal:
      return magnitude && !(magnitude & exponent);
  }
}

}  // namespace CROPDL_TARGET
}  // namespace cropdl::arithmetic
