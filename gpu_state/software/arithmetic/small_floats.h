// Floating point formats of 8 and 16 bits: decoded exactly into a double, encoded from one by a single
// rounding to nearest even. A product of two values is exact in a double. So is a sum, unless bf16's
// exponents are so far apart that the smaller value cannot affect the rounding. Any thread; pure.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace cropdl::arithmetic {

template <class B, int kExponent, int kMantissa, bool kHasInfinity>
struct SmallFloat {
  using Bits = B;
  static constexpr int kBias = (1 << (kExponent - 1)) - 1;
  static constexpr Bits kSign = static_cast<Bits>(1u << (kExponent + kMantissa));
  static constexpr Bits kTop = static_cast<Bits>(((1u << kExponent) - 1) << kMantissa);  // exponent all ones
  // E4M3 has no infinities: the largest exponent is ordinary, except that all ones are NaN.
  static constexpr Bits kNan = static_cast<Bits>(kSign - 1);
  static constexpr Bits kLargest = kHasInfinity ? static_cast<Bits>(kTop - 1) : static_cast<Bits>(kNan - 1);

  static double decode(Bits bits) {
    int exponent = (bits & kTop) >> kMantissa;
    int fraction = bits & ((1 << kMantissa) - 1);
    double value;
    if (kHasInfinity && (bits & kTop) == kTop)
      value = fraction ? std::nan("") : HUGE_VAL;
    else if (!kHasInfinity && (bits & (kSign - 1)) == kNan)
      value = std::nan("");
    else if (exponent == 0)
      value = std::ldexp(fraction, 1 - kBias - kMantissa);
    else
      value = std::ldexp(fraction + (1 << kMantissa), exponent - kBias - kMantissa);
    return bits & kSign ? -value : value;
  }

  static Bits encode(double value) {
    if (std::isnan(value)) return kNan;
    Bits sign = std::signbit(value) ? kSign : Bits{0};
    value = std::fabs(value);
    if (value == 0) return sign;
    int exponent;
    std::frexp(value, &exponent);  // value = m * 2^exponent, m in [0.5, 1)
    int last = std::max(exponent - 1 - kMantissa, 1 - kBias - kMantissa);
    double units = std::isinf(value)
                       ? value
                       : std::nearbyint(std::ldexp(value, -last));  // the rounding mode is to nearest even
    if (std::ldexp(units, last) > decode(kLargest))
      return static_cast<Bits>(sign | (kHasInfinity ? kTop : kNan));
    // Units from 2^mantissa on carry into the exponent, as they should.
    auto whole = static_cast<uint32_t>(units);
    uint32_t steps = static_cast<uint32_t>(last - (1 - kBias - kMantissa));
    return static_cast<Bits>(sign | (whole + (steps << kMantissa)));
  }
};

using Half = SmallFloat<uint16_t, 5, 10, true>;
using Brain = SmallFloat<uint16_t, 8, 7, true>;
using Float8E4M3 = SmallFloat<uint8_t, 4, 3, false>;
using Float8E5M2 = SmallFloat<uint8_t, 5, 2, true>;

}  // namespace cropdl::arithmetic
