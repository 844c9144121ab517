// Rows of the .approx functions. PTX ISA 9.0, "rcp", "rsqrt", "sin", "cos", "lg2", "ex2", "tanh", "div".
#include "gpu_state/software/arithmetic/approximate.h"

#include "gpu_state/software/engine/data/tables.h"

namespace cropdl::engine {
namespace {

template <u16 (*function)(u16)>
inline u32 both(u32 a) {
  return each_half<function>(a);
}
#define HALF(function, opcode, f) row<function>(opcode "." f), row<both<function>>(opcode "." f "x2")

constexpr Entry kEntries[] = {
    row<reciprocal_f32<false>>("rcp.approx.f32"),
    row<reciprocal_f32<true>>("rcp.approx.ftz.f32"),
    row<root_f32<false>>("sqrt.approx.f32"),
    row<root_f32<true>>("sqrt.approx.ftz.f32"),
    row<rsqrt_f32<false>>("rsqrt.approx.f32"),
    row<rsqrt_f32<true>>("rsqrt.approx.ftz.f32"),
    row<rsqrt_f64>("rsqrt.approx.f64"),
    row<gross<Gross::kReciprocal>>("rcp.approx.ftz.f64"),
    row<gross<Gross::kRoot>>("rsqrt.approx.ftz.f64"),
    row<divide_approximately<false>>("div.approx.f32"),
    row<divide_approximately<true>>("div.approx.ftz.f32"),
    row<divide_f32<false>>("div.full.f32"),
    row<divide_f32<true>>("div.full.ftz.f32"),
    row<ex2<false>>("ex2.approx.f32"),
    row<ex2<true>>("ex2.approx.ftz.f32"),
    row<lg2<false>>("lg2.approx.f32"),
    row<lg2<true>>("lg2.approx.ftz.f32"),
    long_row<sine<false, 0>>("sin.approx.f32"),
    long_row<sine<true, 0>>("sin.approx.ftz.f32"),
    long_row<sine<false, 1>>("cos.approx.f32"),
    long_row<sine<true, 1>>("cos.approx.ftz.f32"),
    row<tanh_f32>("tanh.approx.f32"),
    HALF((ex2_half<F16, false>), "ex2.approx", "f16"),
    HALF((ex2_half<BF16, true>), "ex2.approx.ftz", "bf16"),
    HALF((tanh_half<F16>), "tanh.approx", "f16"),
    HALF((tanh_half<BF16>), "tanh.approx", "bf16"),
};

}  // namespace

Entries CROPDL_TARGET::approximate() { return {"approximate", kEntries, sizeof kEntries / sizeof *kEntries}; }

}  // namespace cropdl::engine
