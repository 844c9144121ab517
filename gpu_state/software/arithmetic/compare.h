// Comparisons of set and setp. Source: PTX ISA 9.0, "Comparison and Selection Instructions", "Floating-Point
// Comparisons". With a NaN operand, eq … ge are false and equ … geu true.
#pragma once

#include "gpu_state/software/arithmetic/target.h"

namespace cropdl::arithmetic {
inline namespace CROPDL_TARGET {

enum class Comparison { kEq, kNe, kLt, kLe, kGt, kGe, kEqu, kNeu, kLtu, kLeu, kGtu, kGeu, kNum, kNan };

template <Comparison comparison, class T>
[[gnu::always_inline]] constexpr bool compare(T a, T b) {
  switch (comparison) {
    case Comparison::kEq:
      return a == b;
    case Comparison::kNe:
      return (a < b) | (a > b);
    case Comparison::kLt:
      return a < b;
    case Comparison::kLe:
      return a <= b;
    case Comparison::kGt:
      return a > b;
    case Comparison::kGe:
      return a >= b;
    case Comparison::kEqu:
      return !((a < b) | (a > b));
    case Comparison::kNeu:
      return a != b;
    case Comparison::kLtu:
      return !(a >= b);
    case Comparison::kLeu:
      return !(a > b);
    case Comparison::kGtu:
      return !(a <= b);
    case Comparison::kGeu:
      return !(a < b);
    case Comparison::kNum:
      return (a == a) & (b == b);
    case Comparison::kNan:
      return (a != a) | (b != b);
  }
}

}  // namespace CROPDL_TARGET
}  // namespace cropdl::arithmetic
