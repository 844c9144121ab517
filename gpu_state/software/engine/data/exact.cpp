// Rows of f64 arithmetic in directed rounding. PTX ISA 9.0, "Floating Point Instructions".
#include "gpu_state/software/arithmetic/exact.h"

#include "gpu_state/software/engine/data/tables.h"

namespace cropdl::engine {
namespace {

#define ALL(rounding, r)                                                                               \
  long_row<add_exact<rounding>>("add." r ".f64"), long_row<subtract_exact<rounding>>("sub." r ".f64"), \
      long_row<multiply_exact<rounding>>("mul." r ".f64"),                                             \
      long_row<fma_exact<rounding>>("{fma|mad}." r ".f64"),                                            \
      long_row<divide_exact<rounding>>("div." r ".f64"),                                               \
      long_row<reciprocal_exact<rounding>>("rcp." r ".f64"),                                           \
      long_row<root_exact<rounding>>("sqrt." r ".f64")

constexpr Entry kEntries[] = {ALL(Rounding::kZero, "rz"), ALL(Rounding::kDown, "rm"),
                              ALL(Rounding::kUp, "rp")};

}  // namespace

Entries CROPDL_TARGET::exact() { return {"float", kEntries, sizeof kEntries / sizeof *kEntries}; }

}  // namespace cropdl::engine
