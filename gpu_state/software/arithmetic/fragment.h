// The matrix elements that each lane holds in its registers for mma.sync. PTX ISA 9.0, "Matrix
// multiply-accumulate operation using mma instruction".
#pragma once

#include "gpu_state/software/arithmetic/target.h"

namespace cropdl::arithmetic {
inline namespace CROPDL_TARGET {

struct Position {
  int row, column;
};

// For every type: the position of element j in register r, where a 32-bit register (64 for f64) holds
// `packed` elements along K. `rows` is M, 8 or 16.
constexpr Position fragment_a(int rows, int packed, int lane, int r, int j) {
  const int chunk = rows == 16 ? r >> 1 : r;
  return {lane / 4 + (rows == 16 && (r & 1) ? 8 : 0), chunk * 4 * packed + lane % 4 * packed + j};
}
constexpr Position fragment_b(int packed, int lane, int r, int j) {
  return {r * 4 * packed + lane % 4 * packed + j, lane / 4};
}
// Element i of C or D.
constexpr Position fragment_c(int lane, int i) { return {lane / 4 + (i >> 1) * 8, lane % 4 * 2 + (i & 1)}; }

}  // namespace CROPDL_TARGET
}  // namespace cropdl::arithmetic
