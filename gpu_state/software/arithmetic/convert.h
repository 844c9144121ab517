// Conversions between integers and f32 or f64, and of f32 or f64 to an integral value. Source: PTX ISA 9.0,
// "cvt". rounding.h has roundings to fewer bits other than to nearest.
#pragma once

#include "gpu_state/software/arithmetic/floating.h"
#include "gpu_state/software/arithmetic/integer.h"

namespace cropdl::arithmetic {
inline namespace CROPDL_TARGET {

// Integer to integer. The value is truncated to its type (the register may be wider), converted, and extended
// to the destination register by the destination's type.
template <class D, class S, bool saturate>
constexpr D convert_integer(S a) {
  if (!saturate) return D(a);
  if (kSigned<S> && a < 0)
    return kSigned<D> ? (sizeof(D) < sizeof(S) && a < S(kLeast<D>) ? kLeast<D> : D(a)) : D(0);
  return u64(a) > u64(kMost<D>) ? kMost<D> : D(a);
}

enum class Integral { kNearest, kZero, kDown, kUp };  // .rni .rzi .rmi .rpi
template <Integral rounding>
[[gnu::always_inline]] inline float integral(float a) {
  switch (rounding) {
    case Integral::kNearest:
      return __builtin_rintf(a);
    case Integral::kZero:
      return __builtin_truncf(a);
    case Integral::kDown:
      return __builtin_floorf(a);
    case Integral::kUp:
      return __builtin_ceilf(a);
  }
}
template <Integral rounding>
[[gnu::always_inline]] inline double integral(double a) {
  switch (rounding) {
    case Integral::kNearest:
      return __builtin_rint(a);
    case Integral::kZero:
      return __builtin_trunc(a);
    case Integral::kDown:
      return __builtin_floor(a);
    case Integral::kUp:
      return __builtin_ceil(a);
  }
}

// f32 or f64 to an integer: out-of-range values become the nearest limit. NaN becomes 0; but if the source is
// f64 or the destination has 64 bits, only the top bit is set.
template <class D, class F>
[[gnu::always_inline]] inline D to_integer(F a) {
  constexpr D of_nan = sizeof(F) == 8 || sizeof(D) == 8 ? D(Unsigned<D>(1) << (kWidth<D> - 1)) : D(0);
  // The first value above the range, a power of two and so exact.
  constexpr F above = F(Unsigned<D>(1) << (kWidth<D> - 1)) * (kSigned<D> ? 1 : 2);
  constexpr F below = kSigned<D> ? -above : F(0);
  const bool fits = (a >= below) & (a < above);
  const F safe = fits ? a : F(0);
  D result;
  if constexpr (sizeof(D) < 4 || kSigned<D>) {
    using Through = std::conditional_t<sizeof(D) == 8, s64, s32>;
    result = D(Through(safe));
  } else {
    // x86 before AVX-512 converts only to signed integers.
    constexpr F half = above / 2;
    const bool is_upper = safe >= half;
    result = D(Signed<D>(is_upper ? safe - half : safe)) ^ (is_upper ? D(1) << (kWidth<D> - 1) : D(0));
  }
  return fits ? result : a >= above ? kMost<D> : a < below ? kLeast<D> : of_nan;
}
template <class D, class F, Integral rounding, bool flush>
inline D round_to_integer(F a) {
  if constexpr (flush) a = flushed(a);
  return to_integer<D>(integral<rounding>(a));
}

template <class F>
[[gnu::always_inline]] constexpr F saturated_to(F a, bool saturate) {
  if (!saturate) return a;
  return a > 0 ? (a < 1 ? a : F(1)) : F(0);
}
// Integer to f32 or f64, rounding to nearest.
template <class F, class S, bool saturate>
constexpr F from_integer(S a) {
  return saturated_to(F(a), saturate);
}
template <bool flush, bool saturate>
inline double f64_from_f32(float a) {
  return saturated_to(double(in<flush>(a)), saturate);
}
template <bool flush, bool saturate>
inline float f32_from_f64(double a) {
  return out<flush, saturate>(float(a));
}
template <bool flush, bool saturate>
inline float f32_from_f32(float a) {
  return out<flush, saturate>(in<flush>(a));
}
template <Integral rounding, bool flush, bool saturate>
inline float integral_f32(float a) {
  return out<flush, saturate>(integral<rounding>(in<flush>(a)));
}
template <bool saturate>
inline double f64_from_f64(double a) {
  return saturate ? saturated_to(a, true) : out(a, a);
}
template <Integral rounding, bool saturate>
inline double integral_f64(double a) {
  return saturate ? saturated_to(integral<rounding>(a), true) : out(integral<rounding>(a), a);
}

}  // namespace CROPDL_TARGET
}  // namespace cropdl::arithmetic
