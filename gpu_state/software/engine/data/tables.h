// The tables of entries, one function per file and instruction set. rows.cpp uses those of the best
// instruction set that the processor supports.
#pragma once

#include "gpu_state/software/engine/data/entry.h"

namespace cropdl::engine {

#define CROPDL_DATA_TABLES(target) \
  namespace target {               \
  Entries integer();               \
  Entries logic();                 \
  Entries compare();               \
  Entries floating();              \
  Entries convert();               \
  Entries half();                  \
  Entries approximate();           \
  }
CROPDL_DATA_TABLES(baseline)
CROPDL_DATA_TABLES(avx2)
#undef CROPDL_DATA_TABLES
namespace baseline {  // long or rarely used functions: only for this instruction set
Entries narrow();
Entries half_compare();
Entries directed();
Entries narrow_integer();
Entries exact();
Entries video();
}  // namespace baseline

}  // namespace cropdl::engine
