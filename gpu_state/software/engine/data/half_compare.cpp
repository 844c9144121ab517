// Rows of setp and set for f16, bf16 and their pairs. PTX ISA 9.0, "Half Precision Comparison Instructions".
#include "gpu_state/software/arithmetic/half.h"
#include "gpu_state/software/engine/data/comparison.h"
#include "gpu_state/software/engine/data/tables.h"

namespace cropdl::engine {
namespace {

template <class F, bool flush>
[[gnu::always_inline]] constexpr float lower(u32 a) {
  return half_in<F, flush>(u16(a));
}
template <class F, bool flush>
[[gnu::always_inline]] constexpr float upper(u32 a) {
  return half_in<F, flush>(u16(a >> 16));
}

#define SETP_2(combine, c, of_c, F, flush, comparison, name, ftz, types, written)                  \
  Entry {                                                                                          \
    "setp." name c ftz "." types, "", "", {Kind::kPred, written == 2 ? Kind::kPred : Kind::kNone}, \
        {Kind::k32, Kind::k32, of_c},                                                              \
        set_predicates<u32, lower<F, flush>, upper<F, flush>, comparison, combine, written>        \
  }
#define SET_2(combine, c, of_c, F, flush, comparison, name, ftz, types, destination, truth)         \
  Entry {                                                                                           \
    "set." name c ftz "." destination "." types, "", "", {Kind::k32}, {Kind::k32, Kind::k32, of_c}, \
        set_registers<u32, lower<F, flush>, upper<F, flush>, comparison, combine, truth>            \
  }
#define ALL(comparison, name, F, flush, ftz, f, one)                                                    \
  CROPDL_EACH_COMBINE(CROPDL_SETP, u16, (half_in<F, flush>), comparison, name, ftz, f),                 \
      CROPDL_EACH_COMBINE(CROPDL_SET, u16, (half_in<F, flush>), comparison, name, ftz, f, "{u32|s32}",  \
                          ~u32(0)),                                                                     \
      CROPDL_EACH_COMBINE(CROPDL_SET, u16, (half_in<F, flush>), comparison, name, ftz, f, "{u16|s16}",  \
                          u16(0xffff)),                                                                 \
      CROPDL_EACH_COMBINE(CROPDL_SET, u16, (half_in<F, flush>), comparison, name, ftz, f, f, u16(one)), \
      CROPDL_EACH_COMBINE(SETP_2, F, flush, comparison, name, ftz, f "x2", 1),                          \
      CROPDL_EACH_COMBINE(SETP_2, F, flush, comparison, name, ftz, f "x2", 2),                          \
      CROPDL_EACH_COMBINE(SET_2, F, flush, comparison, name, ftz, f "x2", "{u32|s32}", ~u32(0)),        \
      CROPDL_EACH_COMBINE(SET_2, F, flush, comparison, name, ftz, f "x2", f "x2", one * 0x10001u)

constexpr Entry kEntries[] = {
    CROPDL_EACH_FLOAT_COMPARISON(ALL, F16, false, "", "f16", 0x3c00),
    CROPDL_EACH_FLOAT_COMPARISON(ALL, F16, true, ".ftz", "f16", 0x3c00),
    CROPDL_EACH_FLOAT_COMPARISON(ALL, BF16, false, "", "bf16", 0x3f80),
};

}  // namespace

Entries CROPDL_TARGET::half_compare() { return {"comparison", kEntries, sizeof kEntries / sizeof *kEntries}; }

}  // namespace cropdl::engine
