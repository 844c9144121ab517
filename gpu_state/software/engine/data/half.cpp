// Rows of f16, bf16 and their pairs. PTX ISA 9.0, "Half Precision Floating Point Instructions".
#include "gpu_state/software/arithmetic/half.h"

#include "gpu_state/software/engine/data/tables.h"

namespace cropdl::engine {
namespace {

// One and two values.
#define ONE_AND_TWO_1(function, opcode, f) \
  row<function>(opcode "." f), row<static_cast<u32 (*)(u32)>(each_half<function>)>(opcode "." f "x2")
#define ONE_AND_TWO_2(function, opcode, f) \
  row<function>(opcode "." f), row<static_cast<u32 (*)(u32, u32)>(each_half<function>)>(opcode "." f "x2")
#define ONE_AND_TWO_3(function, opcode, f) \
  row<function>(opcode "." f),             \
      row<static_cast<u32 (*)(u32, u32, u32)>(each_half<function>)>(opcode "." f "x2")

#define SUM(function, opcode)                                                                 \
  ONE_AND_TWO_2((function<F16, false, Limit::kNone>), opcode "{|.rn}", "f16"),                \
      ONE_AND_TWO_2((function<F16, true, Limit::kNone>), opcode "{|.rn}.ftz", "f16"),         \
      ONE_AND_TWO_2((function<F16, false, Limit::kSaturate>), opcode "{|.rn}.sat", "f16"),    \
      ONE_AND_TWO_2((function<F16, true, Limit::kSaturate>), opcode "{|.rn}.ftz.sat", "f16"), \
      ONE_AND_TWO_2((function<BF16, false, Limit::kNone>), opcode "{|.rn}", "bf16")
#define EXTREME_OF(F, flush, greatest, opcode, f)                                               \
  ONE_AND_TWO_2((extreme_half<F, flush, false, greatest, false>), opcode, f),                   \
      ONE_AND_TWO_2((extreme_half<F, flush, true, greatest, false>), opcode ".NaN", f),         \
      ONE_AND_TWO_2((extreme_half<F, flush, false, greatest, true>), opcode ".xorsign.abs", f), \
      ONE_AND_TWO_2((extreme_half<F, flush, true, greatest, true>), opcode ".NaN.xorsign.abs", f)
#define EXTREME(greatest, opcode)                                                                         \
  EXTREME_OF(F16, false, greatest, opcode, "f16"), EXTREME_OF(F16, true, greatest, opcode ".ftz", "f16"), \
      EXTREME_OF(BF16, false, greatest, opcode, "bf16")

constexpr Entry kEntries[] = {
    SUM(add_half, "add"),
    SUM(subtract_half, "sub"),
    SUM(multiply_half, "mul"),
    ONE_AND_TWO_3((fma_half<F16, false, Limit::kNone>), "fma.rn", "f16"),
    ONE_AND_TWO_3((fma_half<F16, true, Limit::kNone>), "fma.rn.ftz", "f16"),
    ONE_AND_TWO_3((fma_half<F16, false, Limit::kSaturate>), "fma.rn.sat", "f16"),
    ONE_AND_TWO_3((fma_half<F16, true, Limit::kSaturate>), "fma.rn.ftz.sat", "f16"),
    ONE_AND_TWO_3((fma_half<F16, false, Limit::kRelu>), "fma.rn.relu", "f16"),
    ONE_AND_TWO_3((fma_half<F16, true, Limit::kRelu>), "fma.rn.ftz.relu", "f16"),
    ONE_AND_TWO_3((fma_half<BF16, false, Limit::kNone>), "fma.rn", "bf16"),
    ONE_AND_TWO_3((fma_half<BF16, false, Limit::kRelu>), "fma.rn.relu", "bf16"),
    ONE_AND_TWO_1((negate_half<F16, false>), "neg", "f16"),
    ONE_AND_TWO_1((negate_half<F16, true>), "neg.ftz", "f16"),
    ONE_AND_TWO_1((negate_half<BF16, false>), "neg", "bf16"),
    ONE_AND_TWO_1((absolute_half<F16, false>), "abs", "f16"),
    ONE_AND_TWO_1((absolute_half<F16, true>), "abs.ftz", "f16"),
    ONE_AND_TWO_1((absolute_half<BF16, false>), "abs", "bf16"),
    EXTREME(false, "min"),
    EXTREME(true, "max"),
};

}  // namespace

Entries CROPDL_TARGET::half() { return {"half", kEntries, sizeof kEntries / sizeof *kEntries}; }

}  // namespace cropdl::engine
