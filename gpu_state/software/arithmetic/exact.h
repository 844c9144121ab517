// f64 in directed rounding, by integer arithmetic: the exact result, or its significant bits with the last
// one set if anything was cut off, is then rounded. Source: PTX ISA 9.0, "Floating Point Instructions".
#pragma once

#include "gpu_state/software/arithmetic/rounding.h"

namespace cropdl::arithmetic {
inline namespace CROPDL_TARGET {

// mantissa * 2^exponent, with a sign.
struct Exact {
  bool is_negative;
  int exponent;
  u128 mantissa;
};

inline int top_bit(u128 value) {
  return u64(value >> 64) ? 127 - __builtin_clzll(u64(value >> 64)) : 63 - __builtin_clzll(u64(value));
}
// Shifts right (or left if negative); if a one is shifted out at the right, the last bit is set.
inline u128 shifted(u128 value, int right) {
  if (right <= 0) return value << -right;
  if (right > 127) return value != 0;
  return value >> right | ((value & ((u128(1) << right) - 1)) != 0);
}
inline Exact exact(double a) {  // finite
  const u64 b = bits<u64>(a);
  const int exponent = int(b >> 52 & 0x7ff);
  const u64 fraction = b & ((u64(1) << 52) - 1);
  return {bool(b >> 63), (exponent ? exponent : 1) - 1075, exponent ? fraction | u64(1) << 52 : fraction};
}
template <Rounding rounding>
inline double rounded(const Exact& a) {
  const u64 sign = u64(a.is_negative) << 63;
  if (a.mantissa == 0) return bits<double>(sign);
  const int top = top_bit(a.mantissa);
  // The result's last bit has the value 2^last.
  const int last = top + a.exponent - 52 > -1074 ? top + a.exponent - 52 : -1074;
  const int right = last - a.exponent;
  u64 kept = u64(shifted(a.mantissa, right - 2));
  const u64 rest = kept & 3;  // half, and less than half
  kept >>= 2;
  bool up = false;
  if (rounding == Rounding::kNearest) up = rest > 2 || (rest == 2 && (kept & 1));
  if (rounding == Rounding::kDown) up = rest && a.is_negative;
  if (rounding == Rounding::kUp) up = rest && !a.is_negative;
  kept += up;
  // The implicit bit increments the exponent, and so does a carry out of the mantissa.
  const u64 result = kept + (u64(last + 1074) << 52);
  constexpr u64 infinity = u64(0x7ff) << 52;
  if (last > 971 || result >= infinity) {
    const bool to_greatest = rounding == Rounding::kZero || (rounding == Rounding::kUp && a.is_negative) ||
                             (rounding == Rounding::kDown && !a.is_negative);
    return bits<double>(sign | (to_greatest ? infinity - 1 : infinity));
  }
  return bits<double>(sign | result);
}
inline bool is_finite(double a) { return a - a == 0; }

inline Exact product(const Exact& a, const Exact& b) {
  return {a.is_negative != b.is_negative, a.exponent + b.exponent, a.mantissa * b.mantissa};
}
// Mantissas of at most 106 bits. A zero sum is -0 if both operands are -0, and, when rounding down, also if
// they are opposite.
template <Rounding rounding>
inline Exact sum(Exact a, Exact b) {
  if (a.mantissa == 0 && b.mantissa == 0)
    return {rounding == Rounding::kDown ? a.is_negative || b.is_negative : a.is_negative && b.is_negative, 0,
            0};
  if (a.mantissa == 0) return b;
  if (b.mantissa == 0) return a;
  if (top_bit(a.mantissa) + a.exponent < top_bit(b.mantissa) + b.exponent) {
    const Exact other = a;
    a = b;
    b = other;
  }
  const int left = 125 - top_bit(a.mantissa);
  a.mantissa <<= left;
  a.exponent -= left;
  // The bits shifted out of b are at least 2^20 times smaller than a.
  b.mantissa = shifted(b.mantissa, a.exponent - b.exponent);
  if (a.is_negative == b.is_negative) {
    a.mantissa += b.mantissa;
  } else if (a.mantissa >= b.mantissa) {
    a.mantissa -= b.mantissa;
    if (a.mantissa == 0) a.is_negative = rounding == Rounding::kDown;
  } else {
    a.mantissa = b.mantissa - a.mantissa;
    a.is_negative = b.is_negative;
  }
  return a;
}
inline Exact quotient(const Exact& a, const Exact& b) {  // b is not zero
  const bool is_negative = a.is_negative != b.is_negative;
  if (a.mantissa == 0) return {is_negative, 0, 0};
  const int left = 125 - top_bit(a.mantissa);
  const u128 numerator = a.mantissa << left;
  const u128 value = numerator / b.mantissa;
  return {is_negative, a.exponent - left - b.exponent, value | (numerator % b.mantissa != 0)};
}
inline Exact root(const Exact& a) {  // not negative
  if (a.mantissa == 0) return a;
  int left = 125 - top_bit(a.mantissa);
  if ((a.exponent - left) & 1) --left;
  const u128 square = a.mantissa << left;
  u128 value = 0;
  for (int bit = 62; bit >= 0; --bit) {
    const u128 next = value | u128(1) << bit;
    if (next * next <= square) value = next;
  }
  return {false, (a.exponent - left) / 2, value << 1 | (value * value != square)};
}

// Non-finite results are the same in every rounding mode.
template <Rounding rounding>
inline double add_exact(double a, double b) {
  if (!is_finite(a) || !is_finite(b)) return add_f64(a, b);
  return rounded<rounding>(sum<rounding>(exact(a), exact(b)));
}
template <Rounding rounding>
inline double subtract_exact(double a, double b) {
  if (!is_finite(a) || !is_finite(b)) return subtract_f64(a, b);
  return rounded<rounding>(sum<rounding>(exact(a), exact(-b)));
}
template <Rounding rounding>
inline double multiply_exact(double a, double b) {
  if (!is_finite(a) || !is_finite(b)) return multiply_f64(a, b);
  return rounded<rounding>(product(exact(a), exact(b)));
}
template <Rounding rounding>
inline double fma_exact(double a, double b, double c) {
  if (!is_finite(a) || !is_finite(b) || !is_finite(c)) return fma_f64(a, b, c);
  return rounded<rounding>(sum<rounding>(product(exact(a), exact(b)), exact(c)));
}
template <Rounding rounding>
inline double divide_exact(double a, double b) {
  if (!is_finite(a) || !is_finite(b) || b == 0) return divide_f64(a, b);
  return rounded<rounding>(quotient(exact(a), exact(b)));
}
template <Rounding rounding>
inline double reciprocal_exact(double a) {
  return divide_exact<rounding>(1, a);
}
template <Rounding rounding>
inline double root_exact(double a) {
  if (!(a > 0) || !is_finite(a)) return root_f64(a);
  Exact r = root(exact(a));
  --r.exponent;  // of the bit that records whether something was cut off
  return rounded<rounding>(r);
}

}  // namespace CROPDL_TARGET
}  // namespace cropdl::arithmetic
