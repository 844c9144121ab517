// Rows of f32 arithmetic in directed rounding. PTX ISA 9.0, "Floating Point Instructions".
#include "gpu_state/software/arithmetic/rounding.h"
#include "gpu_state/software/engine/data/tables.h"

namespace cropdl::engine {
namespace {

#define BOTH_FLAGS(function, rounding, opcode)                 \
  row<function<rounding, false, false>>(opcode ".f32"),        \
      row<function<rounding, true, false>>(opcode ".ftz.f32"), \
      row<function<rounding, false, true>>(opcode ".sat.f32"), \
      row<function<rounding, true, true>>(opcode ".ftz.sat.f32")
#define FLUSH(function, rounding, opcode) \
  row<function<rounding, false>>(opcode ".f32"), row<function<rounding, true>>(opcode ".ftz.f32")
#define ALL(rounding, name)                                                                                 \
  BOTH_FLAGS(add_directed, rounding, "add." name), BOTH_FLAGS(subtract_directed, rounding, "sub." name),    \
      BOTH_FLAGS(multiply_directed, rounding, "mul." name),                                                 \
      BOTH_FLAGS(fma_directed, rounding, "{fma|mad}." name), FLUSH(divide_directed, rounding, "div." name), \
      FLUSH(reciprocal_directed, rounding, "rcp." name), FLUSH(root_directed, rounding, "sqrt." name)

constexpr Entry kEntries[] = {ALL(Rounding::kZero, "rz"), ALL(Rounding::kDown, "rm"),
                              ALL(Rounding::kUp, "rp")};

}  // namespace

Entries CROPDL_TARGET::directed() { return {"float", kEntries, sizeof kEntries / sizeof *kEntries}; }

}  // namespace cropdl::engine
