// Rows of setp and set for integers, f32 and f64. PTX ISA 9.0, "Comparison and Selection Instructions".
#include "gpu_state/software/arithmetic/floating.h"
#include "gpu_state/software/engine/data/comparison.h"
#include "gpu_state/software/engine/data/tables.h"

namespace cropdl::engine {
namespace {

template <class T>
[[gnu::always_inline]] constexpr T plain(T a) {
  return a;
}

// `name`: lt; `ftz`: ".ftz" or ""; `types`: the types that compare the same bits.
#define ALL(comparison, name, T, view, ftz, types)                                                    \
  CROPDL_EACH_COMBINE(CROPDL_SETP, T, view, comparison, name, ftz, types),                            \
      CROPDL_EACH_COMBINE(CROPDL_SETP_BOTH, T, view, comparison, name, ftz, types),                   \
      CROPDL_EACH_COMBINE(CROPDL_SET, T, view, comparison, name, ftz, types, "{u32|s32}", ~u32(0)),   \
      CROPDL_EACH_COMBINE(CROPDL_SET, T, view, comparison, name, ftz, types, "f32", u32(0x3f800000)), \
      CROPDL_EACH_COMBINE(CROPDL_SET, T, view, comparison, name, ftz, types, "f16", u16(0x3c00)),     \
      CROPDL_EACH_COMBINE(CROPDL_SET, T, view, comparison, name, ftz, types, "bf16", u16(0x3f80))
#define EQUAL(T, types) \
  ALL(Comparison::kEq, "eq", T, plain<T>, "", types), ALL(Comparison::kNe, "ne", T, plain<T>, "", types)
#define ORDER(T, types, lt, le, gt, ge)                                                               \
  ALL(Comparison::kLt, lt, T, plain<T>, "", types), ALL(Comparison::kLe, le, T, plain<T>, "", types), \
      ALL(Comparison::kGt, gt, T, plain<T>, "", types), ALL(Comparison::kGe, ge, T, plain<T>, "", types)
#define UNSIGNED(T, types) ORDER(T, types, "{lt|lo}", "{le|ls}", "{gt|hi}", "{ge|hs}")
#define SIGNED(T, types) ORDER(T, types, "lt", "le", "gt", "ge")

constexpr Entry kEntries[] = {
    EQUAL(u16, "{b16|u16|s16}"),
    EQUAL(u32, "{b32|u32|s32}"),
    EQUAL(u64, "{b64|u64|s64}"),
    UNSIGNED(u16, "u16"),
    UNSIGNED(u32, "u32"),
    UNSIGNED(u64, "u64"),
    SIGNED(s16, "s16"),
    SIGNED(s32, "s32"),
    SIGNED(s64, "s64"),
    CROPDL_EACH_FLOAT_COMPARISON(ALL, float, plain<float>, "", "f32"),
    CROPDL_EACH_FLOAT_COMPARISON(ALL, float, flushed, ".ftz", "f32"),
    CROPDL_EACH_FLOAT_COMPARISON(ALL, double, plain<double>, "", "f64"),
};

}  // namespace

Entries CROPDL_TARGET::compare() { return {"comparison", kEntries, sizeof kEntries / sizeof *kEntries}; }

}  // namespace cropdl::engine
