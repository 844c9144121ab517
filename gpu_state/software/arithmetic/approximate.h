// The .approx functions, computed in f64 by this file's own polynomials (library functions differ between
// processors) to about 1e-13, then rounded once to f32: much closer than PTX guarantees, and the same
// everywhere; real devices differ in the last bits. Exact if the true value is representable at powers of two
// (ex2 of integers, lg2 of powers of two, rsqrt of powers of four). Special values follow the tables of PTX
// ISA 9.0.
#pragma once

#include "gpu_state/software/arithmetic/half.h"

namespace cropdl::arithmetic {
inline namespace CROPDL_TARGET {

// 2 to the power of x; x is not NaN.
[[gnu::always_inline]] inline double power_of_two(double x) {
  x = x > 1000 ? 1000 : x < -1000 ? -1000 : x;
  const double whole = __builtin_rint(x), f = (x - whole) * 0.693147180559945309417;
  // e^f for |f| < 0.347: Taylor polynomial with a remainder below 1e-17.
  double p = 1.0 / 479001600;
  constexpr double factors[] = {1.0 / 39916800, 1.0 / 3628800, 1.0 / 362880, 1.0 / 40320,
                                1.0 / 5040,     1.0 / 720,     1.0 / 120,    1.0 / 24,
                                1.0 / 6,        1.0 / 2,       1.0,          1.0};
  for (double factor : factors) p = p * f + factor;
  return p * bits<double>(u64(s64(s32(whole)) + 1023) << 52);
}
template <bool flush>
inline float ex2(float a) {
  a = in<flush>(a);
  return a != a ? bits<float>(kNaN32) : in<flush>(float(power_of_two(a)));
}
template <class F, bool flush>
inline u16 ex2_half(u16 a) {
  const float x = half_in<F, flush>(a);
  const u16 result = u16(narrow<F, Rounding::kNearest>(power_of_two(x)));
  const u16 kept = flush && !(result & F::infinity) ? result & 0x8000 : result;
  return x != x ? u16(F::nan) : kept;
}

template <bool flush>
inline float lg2(float a) {
  a = in<flush>(a);
  const u64 b = bits<u64>(double(a));
  // a = m * 2^e with m in [sqrt(1/2), sqrt(2)); an f32 is never subnormal as f64.
  constexpr u64 root_half = 0x3fe6a09e667f3bcd;
  const s64 e = s64(b - root_half) >> 52;
  const double m = bits<double>(b - (u64(e) << 52));
  const double s = (m - 1) / (m + 1), s2 = s * s;
  // log m = 2 (s + s^3/3 + s^5/5 + …), |s| < 0.172.
  double p = 1.0 / 21;
  constexpr double factors[] = {1.0 / 19, 1.0 / 17, 1.0 / 15, 1.0 / 13, 1.0 / 11,
                                1.0 / 9,  1.0 / 7,  1.0 / 5,  1.0 / 3,  1.0};
  for (double factor : factors) p = p * s2 + factor;
  const float result = float(double(s32(e)) + s * p * 2.88539008177792681472);
  const u32 infinity = 0x7f800000;
  if (a == 0) return bits<float>(infinity | 0x80000000);
  if (bits<u32>(a) == infinity) return a;
  return a > 0 ? in<flush>(result) : bits<float>(kNaN32);
}

// Sine or cosine of quadrant * pi/2 + r, |r| <= pi/4.
inline double sine_of(u32 quadrant, double r) {
  const double r2 = r * r;
  if (quadrant & 1) {
    double p = 1.0 / 20922789888000;
    constexpr double factors[] = {-1.0 / 87178291200, 1.0 / 479001600, -1.0 / 3628800, 1.0 / 40320,
                                  -1.0 / 720,         1.0 / 24,        -1.0 / 2,       1.0};
    for (double factor : factors) p = p * r2 + factor;
    return quadrant & 2 ? -p : p;
  }
  double p = -1.0 / 1307674368000;
  constexpr double factors[] = {1.0 / 6227020800, -1.0 / 39916800, 1.0 / 362880, -1.0 / 5040,
                                1.0 / 120,        -1.0 / 6,        1.0};
  for (double factor : factors) p = p * r2 + factor;
  return (quadrant & 2 ? -p : p) * r;
}
// Any finite f32: its product with 2/pi modulo 4, for which 192 bits of 2/pi suffice.
inline double sine_of(float a, u32 quarter_turns) {
  const u32 b = bits<u32>(a);
  const int exponent = int(b >> 23 & 255);
  if (exponent < 127 - 12) return quarter_turns & 1 ? 1 - double(a) * a / 2 : a - double(a) * a * a / 6;
  // 2/pi in 32-bit words, each worth 2^-32 of the previous one.
  constexpr u32 two_over_pi[] = {0xa2f9836e, 0x4e441529, 0xfc2757d1, 0xf534ddc0,
                                 0xdb629599, 0x3c439041, 0xfe5163ab};
  const u64 mantissa = (b & 0x7fffff) | 0x800000;
  const int scale = exponent - 150;  // a = mantissa * 2^scale, -35 … 104
  // Skips the leading words whose product is a multiple of 4.
  const int first = scale > 34 ? (scale - 2) / 32 - 1 : 0;
  // Five words times the mantissa: 160 + 24 bits, of which the lowest is worth 2^(scale - 32 (first + 5)).
  u32 product[6] = {};  // the last word first
  u64 carry = 0;
  for (int i = 0; i < 5; ++i) {
    const int word = first + 4 - i;
    carry += mantissa * (word < 7 ? two_over_pi[word] : 0);
    product[i] = u32(carry);
    carry >>= 32;
  }
  product[5] = u32(carry);
  // The bits worth 2 and 1 are the quadrant; lower bits are the fraction.
  const int point = 32 * (first + 5) - scale;
  const auto word_at = [&](int i) { return i >= 0 && i < 6 ? u128(product[i]) : u128(0); };
  const auto from = [&](int bit) {  // the 64 bits below `bit`
    const int lowest = bit - 64, word = lowest >> 5;
    return u64((word_at(word) | word_at(word + 1) << 32 | word_at(word + 2) << 64) >> (lowest & 31));
  };
  u32 quadrant = u32(from(point + 2) >> 62);
  const u64 fraction = from(point);
  double r;
  if (fraction >> 63) {
    ++quadrant;
    r = -double(s64((~fraction + 1) >> 1)) * 0x1p-63;
  } else {
    r = double(s64(fraction >> 1)) * 0x1p-63;
  }
  r *= 1.57079632679489661923;
  if (b >> 31) {
    r = -r;
    quadrant = 0 - quadrant;
  }
  return sine_of((quadrant + quarter_turns) & 3, r);
}
template <bool flush, u32 quarter_turns>
inline float sine(float a) {
  a = in<flush>(a);
  if (!(a - a == 0)) return bits<float>(kNaN32);
  if (a == 0) return quarter_turns ? 1.0f : a;
  return in<flush>(float(sine_of(a, quarter_turns)));
}

inline double tanh_of(double x) {
  const double magnitude = x < 0 ? -x : x;
  const double near = magnitude - magnitude * magnitude * magnitude / 3;
  const double far = 1 - 2 / (power_of_two(magnitude * 2.88539008177792681472) + 1);
  const double result = magnitude < 0x1p-10 ? near : far;
  return bits<u64>(x) >> 63 ? -result : result;
}
inline float tanh_f32(float a) { return a != a ? bits<float>(kNaN32) : float(tanh_of(a)); }
template <class F>
inline u16 tanh_half(u16 a) {
  const float x = widen<F>(a);
  return x != x ? u16(F::nan) : u16(narrow<F, Rounding::kNearest>(tanh_of(x)));
}

template <bool flush>
inline float rsqrt_f32(float a) {
  return out<flush, false>(float(1.0 / __builtin_sqrt(double(in<flush>(a)))));
}
inline double rsqrt_f64(double a) { return out(1.0 / __builtin_sqrt(a), a); }
// Uses only the upper 32 bits of operand and result.
enum class Gross { kReciprocal, kRoot };
template <Gross which>
inline double gross(double a) {
  const u64 upper = bits<u64>(a) >> 32 << 32, exponent = u64(0x7ff) << 52;
  const double x = bits<double>(upper & exponent ? upper : upper & (u64(1) << 63));
  const double exact = which == Gross::kReciprocal ? 1 / x : 1 / __builtin_sqrt(x);
  const u64 result = narrow<F64High, Rounding::kNearest>(exact) << 32;
  return bits<double>(a != a ? F64High::nan << 32 : result & exponent ? result : result & (u64(1) << 63));
}
// For divisors between 2^126 and infinity, the reciprocal would be subnormal: the quotient is 0, or NaN if
// the dividend is infinite.
template <bool flush>
inline float divide_approximately(float a, float b) {
  a = in<flush>(a), b = in<flush>(b);
  const float magnitude = bits<float>(bits<u32>(b) & 0x7fffffff);
  const float quotient = out<flush, false>(a / b);
  const bool is_huge = (magnitude > 0x1p126f) & (bits<u32>(magnitude) < 0x7f800000);
  const bool is_infinite = (bits<u32>(a) & 0x7fffffff) == 0x7f800000;
  const u32 sign = (bits<u32>(a) ^ bits<u32>(b)) & 0x80000000;
  const bool is_number = a == a;
  return is_huge & is_number ? bits<float>(is_infinite ? kNaN32 : sign) : quotient;
}

}  // namespace CROPDL_TARGET
}  // namespace cropdl::arithmetic
