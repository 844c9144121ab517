// Executes ldmatrix, stmatrix and wmma for a whole warp (matrix.cpp).
#pragma once

#include "gpu_state/software/engine/memory.h"

namespace cropdl::engine {

// `extra`: the number of the MatrixUse. Operands (in `many`): loads: destinations, address, stride; stores:
// sources, address, stride; products: d, a, b, c.
void matrix_execute(Warp& warp, const Instruction& instruction, uint32_t active);

uint32_t bytes_of(MatrixUse::Element element);

}  // namespace cropdl::engine
