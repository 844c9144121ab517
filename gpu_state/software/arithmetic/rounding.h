// Rounds an exact value to a format of fewer bits in each of PTX's modes; f32 arithmetic in directed
// rounding. The exact value is held in an f64: products of two f32, and all values of smaller formats, are
// exact in it; sums, quotients and roots are rounded to odd (the last bit is set if something was cut off),
// after which a second rounding to at most 51 bits is correct in every mode (Boldo and Melquiond).
#pragma once

#include "gpu_state/software/arithmetic/floating.h"

namespace cropdl::arithmetic {
inline namespace CROPDL_TARGET {

enum class Rounding { kNearest, kZero, kDown, kUp, kAway };  // .rn .rz .rm .rp; .rna: nearest, ties away

// Sign, exponent and mantissa, stored with `padding` zero bits below the mantissa.
template <int exponent_, int mantissa_, u64 not_a_number, bool infinite = true, int padding_ = 0>
struct Format {
  static constexpr int exponent = exponent_, mantissa = mantissa_, padding = padding_;
  static constexpr int bias = (1 << (exponent - 1)) - 1;
  static constexpr u64 sign = u64(1) << (exponent + mantissa);
  static constexpr u64 nan = not_a_number;  // canonical; includes the padding
  static constexpr u64 infinity = ((u64(1) << exponent) - 1) << mantissa;
  static constexpr u64 greatest = infinite ? infinity - 1 : sign - 2;  // finite
  static constexpr bool has_infinity = infinite;
};
using F16 = Format<5, 10, 0x7fff>;
using BF16 = Format<8, 7, 0x7fff>;
using F32 = Format<8, 23, kNaN32>;
using TF32 = Format<8, 10, kNaN32, true, 13>;
using E4M3 = Format<4, 3, 0x7f, false>;
using E5M2 = Format<5, 2, 0x7f>;
using F64High = Format<11, 20, 0x7fffffff>;  // the upper half of an f64

// finite: overflow (and infinity) becomes the greatest finite value, as with .satfinite.
template <class F, Rounding rounding, bool finite = false>
[[gnu::always_inline]] constexpr u64 narrow(double value) {
  const u64 b = bits<u64>(value);
  const bool is_negative = b >> 63;
  const u64 magnitude = b & ~(u64(1) << 63);
  const int exponent = int(magnitude >> 52);
  const u64 fraction = magnitude & ((u64(1) << 52) - 1);
  const int scale = exponent - 1023 + F::bias;  // the result's exponent field, if above 0
  const bool is_normal = scale >= 1;
  // The result's bits with 52 - mantissa extra bits; for subnormals, the mantissa alone.
  const u64 wide = is_normal ? u64(scale) << 52 | fraction : (exponent ? fraction | u64(1) << 52 : fraction);
  const int cut = 52 - F::mantissa + (is_normal ? 0 : 1 - scale);
  const int shift = cut > 63 ? 63 : cut;
  const u64 kept = wide >> shift, rest = wide & ((u64(1) << shift) - 1), half = u64(1) << (shift - 1);
  bool up = false;
  switch (rounding) {
    case Rounding::kNearest:
      up = (rest > half) | ((rest == half) & (kept & 1));
      break;
    case Rounding::kAway:
      up = rest >= half;
      break;
    case Rounding::kZero:
      break;
    case Rounding::kDown:
      up = (rest != 0) & is_negative;
      break;
    case Rounding::kUp:
      up = (rest != 0) & !is_negative;
      break;
  }
  u64 result = kept + up;
  bool to_greatest = finite || !F::has_infinity || rounding == Rounding::kZero;
  if (rounding == Rounding::kDown) to_greatest |= !is_negative;
  if (rounding == Rounding::kUp) to_greatest |= is_negative;
  const bool is_infinite = magnitude == u64(0x7ff) << 52;
  if (finite || !F::has_infinity) {
    result = (result > F::greatest) | is_infinite ? F::greatest : result;
  } else {
    result = result > F::greatest ? (to_greatest ? F::greatest : F::infinity) : result;
    result = is_infinite ? F::infinity : result;
  }
  result = (result | (is_negative ? F::sign : 0)) << F::padding;
  return value != value ? F::nan : result;
}

// The sum of two values, rounded to odd; a zero sum of opposite signs is -0 only when rounding down.
template <Rounding rounding = Rounding::kNearest>
[[gnu::always_inline]] constexpr double odd_sum(double a, double b) {
  const double sum = a + b;
  const double from_a = sum - b, from_b = sum - from_a;
  const double error = (a - from_a) + (b - from_b);
  const u64 s = bits<u64>(sum);
  // One unit away from zero or towards it, to the side of the exact sum.
  const bool is_away = (error > 0) == (sum > 0);
  const bool is_inexact = ((error > 0) | (error < 0)) & !(s & 1);
  const double odd = bits<double>(is_inexact ? (is_away ? s + 1 : s - 1) : s);
  if (rounding != Rounding::kDown) return odd;
  const bool opposite = (bits<u64>(a) ^ bits<u64>(b)) >> 63;
  return (sum == 0) & opposite ? -0.0 : odd;
}
// `error` has the sign of (exact value - `value`).
[[gnu::always_inline]] constexpr double odd(double value, double error) {
  const u64 v = bits<u64>(value);
  const bool is_away = (error > 0) == (value > 0);
  const bool is_inexact = ((error > 0) | (error < 0)) & !(v & 1);
  return bits<double>(is_inexact ? (is_away ? v + 1 : v - 1) : v);
}
// Of f32 operands.
[[gnu::always_inline]] inline double odd_quotient(double a, double b) {
  const double quotient = a / b;
  const double rest = fused(-quotient, b, a);
  const bool is_finite = (quotient - quotient == 0) & (b - b == 0);
  return odd(quotient, is_finite ? (b < 0 ? -rest : rest) : 0);
}
[[gnu::always_inline]] inline double odd_root(double a) {
  const double root = __builtin_sqrt(a);
  const double rest = fused(-root, root, a);
  return odd(root, rest - rest == 0 ? rest : 0);
}

template <Rounding rounding, bool flush, bool saturate>
[[gnu::always_inline]] inline float f32_of(double exact) {
  return out<flush, saturate>(bits<float>(u32(narrow<F32, rounding>(exact))));
}
template <Rounding rounding, bool flush, bool saturate>
inline float add_directed(float a, float b) {
  return f32_of<rounding, flush, saturate>(odd_sum<rounding>(in<flush>(a), in<flush>(b)));
}
template <Rounding rounding, bool flush, bool saturate>
inline float subtract_directed(float a, float b) {
  return f32_of<rounding, flush, saturate>(odd_sum<rounding>(in<flush>(a), -in<flush>(b)));
}
template <Rounding rounding, bool flush, bool saturate>
inline float multiply_directed(float a, float b) {
  return f32_of<rounding, flush, saturate>(double(in<flush>(a)) * double(in<flush>(b)));
}
template <Rounding rounding, bool flush, bool saturate>
inline float fma_directed(float a, float b, float c) {
  return f32_of<rounding, flush, saturate>(
      odd_sum<rounding>(double(in<flush>(a)) * double(in<flush>(b)), in<flush>(c)));
}
template <Rounding rounding, bool flush>
inline float divide_directed(float a, float b) {
  return f32_of<rounding, flush, false>(odd_quotient(in<flush>(a), in<flush>(b)));
}
template <Rounding rounding, bool flush>
inline float reciprocal_directed(float a) {
  return f32_of<rounding, flush, false>(odd_quotient(1, in<flush>(a)));
}
template <Rounding rounding, bool flush>
inline float root_directed(float a) {
  return f32_of<rounding, flush, false>(odd_root(in<flush>(a)));
}

// An integer as an f64 from which a second rounding to at most 51 bits is correct.
template <class S>
[[gnu::always_inline]] constexpr double odd_integer(S a) {
  if constexpr (sizeof(S) < 8) {
    return double(a);
  } else {
    // Beyond 53 bits, only whether the last eleven bits are zero matters.
    const bool is_negative = kSigned<S> && a < 0;
    const u64 magnitude = is_negative ? u64(0) - u64(a) : u64(a);
    const u64 upper = magnitude >> 11 | ((magnitude & 0x7ff) != 0);
    const double result = magnitude >> 53 ? double(s64(upper)) * 2048 : double(s64(magnitude));
    return is_negative ? -result : result;
  }
}

}  // namespace CROPDL_TARGET
}  // namespace cropdl::arithmetic
