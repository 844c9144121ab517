// Rows of f32 and f64 arithmetic to nearest. PTX ISA 9.0, "Floating Point Instructions".
#include "gpu_state/software/arithmetic/floating.h"

#include "gpu_state/software/engine/data/tables.h"

namespace cropdl::engine {
namespace {

// Names of .ftz and .sat, in this order.
#define BOTH_FLAGS(function, opcode)                                                         \
  row<function<false, false>>(opcode ".f32"), row<function<true, false>>(opcode ".ftz.f32"), \
      row<function<false, true>>(opcode ".sat.f32"), row<function<true, true>>(opcode ".ftz.sat.f32")
#define FLUSH(function, opcode) row<function<false>>(opcode ".f32"), row<function<true>>(opcode ".ftz.f32")
#define EXTREME(greatest, opcode)                                                      \
  row<extreme_f32<false, false, greatest, false>>(opcode ".f32"),                      \
      row<extreme_f32<true, false, greatest, false>>(opcode ".ftz.f32"),               \
      row<extreme_f32<false, true, greatest, false>>(opcode ".NaN.f32"),               \
      row<extreme_f32<true, true, greatest, false>>(opcode ".ftz.NaN.f32"),            \
      row<extreme_f32<false, false, greatest, true>>(opcode ".xorsign.abs.f32"),       \
      row<extreme_f32<true, false, greatest, true>>(opcode ".ftz.xorsign.abs.f32"),    \
      row<extreme_f32<false, true, greatest, true>>(opcode ".NaN.xorsign.abs.f32"),    \
      row<extreme_f32<true, true, greatest, true>>(opcode ".ftz.NaN.xorsign.abs.f32"), \
      row<extreme_f64<greatest>>(opcode ".f64")
#define TEST(test, opcode) row<is<float, test>>(opcode ".f32"), row<is<double, test>>(opcode ".f64")

constexpr Entry kEntries[] = {
    BOTH_FLAGS(add_f32, "add{|.rn}"),
    BOTH_FLAGS(subtract_f32, "sub{|.rn}"),
    BOTH_FLAGS(multiply_f32, "mul{|.rn}"),
    BOTH_FLAGS(fma_f32, "{fma|mad}.rn"),
    FLUSH(divide_f32, "div.rn"),
    FLUSH(reciprocal_f32, "rcp.rn"),
    FLUSH(root_f32, "sqrt.rn"),
    FLUSH(negate_f32, "neg"),
    FLUSH(absolute_f32, "abs"),
    row<add_f64>("add{|.rn}.f64"),
    row<subtract_f64>("sub{|.rn}.f64"),
    row<multiply_f64>("mul{|.rn}.f64"),
    row<fma_f64>("{fma|mad}.rn.f64"),
    row<divide_f64>("div.rn.f64"),
    row<reciprocal_f64>("rcp.rn.f64"),
    row<root_f64>("sqrt.rn.f64"),
    row<negate_f64>("neg.f64"),
    row<absolute_f64>("abs.f64"),
    row<copy_sign_f32>("copysign.f32"),
    row<copy_sign_f64>("copysign.f64"),
    EXTREME(false, "min"),
    EXTREME(true, "max"),
    TEST(Test::kFinite, "testp.finite"),
    TEST(Test::kInfinite, "testp.infinite"),
    TEST(Test::kNumber, "testp.number"),
    TEST(Test::kNotANumber, "testp.notanumber"),
    TEST(Test::kNormal, "testp.normal"),
    TEST(Test::kSubnormal, "testp.subnormal"),
};

}  // namespace

Entries CROPDL_TARGET::floating() { return {"float", kEntries, sizeof kEntries / sizeof *kEntries}; }

}  // namespace cropdl::engine
