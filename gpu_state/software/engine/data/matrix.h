// The table of matrix.cpp: rows with more operands than an Entry can hold.
#pragma once

#include "gpu_state/software/engine/data/entry.h"

namespace cropdl::engine {

struct MatrixEntry {
  const char* opcode;  // alternatives as in an Entry
  Kind kind;           // of all operands
  int destinations, sources;
  Instruction::Execute execute;
};
struct MatrixEntries {
  const MatrixEntry* first;
  size_t count;
};
MatrixEntries matrix();

}  // namespace cropdl::engine
