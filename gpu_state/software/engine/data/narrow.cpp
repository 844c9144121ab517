// Rows of cvt with formats of 16 bits and less, and in directed rounding. PTX ISA 9.0, "cvt", "cvt.pack".
#include "gpu_state/software/arithmetic/narrow.h"

#include "gpu_state/software/engine/data/tables.h"

namespace cropdl::engine {
namespace {

#define EACH_ROUNDING(MACRO, ...)                                                          \
  MACRO(Rounding::kNearest, "rn", __VA_ARGS__), MACRO(Rounding::kZero, "rz", __VA_ARGS__), \
      MACRO(Rounding::kDown, "rm", __VA_ARGS__), MACRO(Rounding::kUp, "rp", __VA_ARGS__)
#define DIRECTED(MACRO, ...)                                                            \
  MACRO(Rounding::kZero, "rz", __VA_ARGS__), MACRO(Rounding::kDown, "rm", __VA_ARGS__), \
      MACRO(Rounding::kUp, "rp", __VA_ARGS__)
#define HALF_OF_FLOAT(rounding, r, F, f)                                                      \
  row<half_from_f32<F, rounding, Bound::kNone, false>>("cvt." r "." f ".f32"),                \
      row<half_from_f32<F, rounding, Bound::kSaturate, false>>("cvt." r ".sat." f ".f32"),    \
      row<half_from_f32<F, rounding, Bound::kNone, true>>("cvt." r ".ftz." f ".f32"),         \
      row<half_from_f32<F, rounding, Bound::kSaturate, true>>("cvt." r ".ftz.sat." f ".f32"), \
      row<half_from_f64<F, rounding, Bound::kNone>>("cvt." r "." f ".f64"),                   \
      row<half_from_f64<F, rounding, Bound::kSaturate>>("cvt." r ".sat." f ".f64")
#define HALF_OF_HALF(rounding, r, ignored)                                          \
  row<half_from_half<BF16, F16, rounding, Bound::kNone>>("cvt." r ".bf16.f16"),     \
      row<half_from_half<F16, BF16, rounding, Bound::kNone>>("cvt." r ".f16.bf16"), \
      row<half_from_half<F16, BF16, rounding, Bound::kSaturate>>("cvt." r ".sat.f16.bf16")
#define BOUNDED(rounding, r, bound, modifier)                                          \
  row<half_from_f32<F16, rounding, bound, false>>("cvt." r modifier ".f16.f32"),       \
      row<half_from_f32<BF16, rounding, bound, false>>("cvt." r modifier ".bf16.f32"), \
      row<halves_from_f32<F16, rounding, bound>>("cvt." r modifier ".f16x2.f32"),      \
      row<halves_from_f32<BF16, rounding, bound>>("cvt." r modifier ".bf16x2.f32"),    \
      row<tf32_from_f32<rounding, bound>>("cvt." r modifier ".tf32.f32")
#define EACH_BOUND(rounding, r)                                                                        \
  row<halves_from_f32<F16, rounding, Bound::kNone>>("cvt." r ".f16x2.f32"),                            \
      row<halves_from_f32<BF16, rounding, Bound::kNone>>("cvt." r ".bf16x2.f32"),                      \
      row<tf32_from_f32<rounding, Bound::kNone>>("cvt." r ".tf32.f32"),                                \
      BOUNDED(rounding, r, Bound::kRelu, ".relu"), BOUNDED(rounding, r, Bound::kFinite, ".satfinite"), \
      BOUNDED(rounding, r, Bound::kReluFinite, ".satfinite.relu")
#define SAME(rounding, r)                                                                     \
  row<integral_half<F16, rounding, Bound::kNone, false>>("cvt." r ".f16.f16"),                \
      row<integral_half<F16, rounding, Bound::kNone, true>>("cvt." r ".ftz.f16.f16"),         \
      row<integral_half<F16, rounding, Bound::kSaturate, false>>("cvt." r ".sat.f16.f16"),    \
      row<integral_half<F16, rounding, Bound::kSaturate, true>>("cvt." r ".ftz.sat.f16.f16"), \
      row<integral_half<BF16, rounding, Bound::kNone, false>>("cvt." r ".bf16.bf16")
#define BYTES(F, f)                                                                       \
  row<bytes_from_f32<F, Bound::kFinite>>("cvt.rn.satfinite." f ".f32"),                   \
      row<bytes_from_f32<F, Bound::kReluFinite>>("cvt.rn.satfinite.relu." f ".f32"),      \
      row<bytes_from_halves<F, Bound::kFinite>>("cvt.rn.satfinite." f ".f16x2"),          \
      row<bytes_from_halves<F, Bound::kReluFinite>>("cvt.rn.satfinite.relu." f ".f16x2"), \
      row<halves_from_bytes<F, false>>("cvt.rn.f16x2." f),                                \
      row<halves_from_bytes<F, true>>("cvt.rn.relu.f16x2." f)
#define F32_OF_F64(rounding, r, ignored)                                          \
  row<f32_from_f64_directed<rounding, false, false>>("cvt." r ".f32.f64"),        \
      row<f32_from_f64_directed<rounding, true, false>>("cvt." r ".ftz.f32.f64"), \
      row<f32_from_f64_directed<rounding, false, true>>("cvt." r ".sat.f32.f64"), \
      row<f32_from_f64_directed<rounding, true, true>>("cvt." r ".ftz.sat.f32.f64")
#define PACK(width, is_signed, d) row<pack_bits<width, is_signed>>("cvt.pack.sat." d ".s32.b32")

constexpr Entry kEntries[] = {
    EACH_ROUNDING(HALF_OF_FLOAT, F16, "f16"),
    EACH_ROUNDING(HALF_OF_FLOAT, BF16, "bf16"),
    EACH_ROUNDING(HALF_OF_HALF, ),
    EACH_BOUND(Rounding::kNearest, "rn"),
    EACH_BOUND(Rounding::kZero, "rz"),
    row<tf32_from_f32<Rounding::kAway, Bound::kNone>>("cvt.rna.tf32.f32"),
    row<tf32_from_f32<Rounding::kAway, Bound::kFinite>>("cvt.rna.satfinite.tf32.f32"),
    SAME(Integral::kNearest, "rni"),
    SAME(Integral::kZero, "rzi"),
    SAME(Integral::kDown, "rmi"),
    SAME(Integral::kUp, "rpi"),
    row<half_from_same<F16, Bound::kNone, false>>("cvt.f16.f16"),
    row<half_from_same<F16, Bound::kNone, true>>("cvt.ftz.f16.f16"),
    row<half_from_same<F16, Bound::kSaturate, false>>("cvt.sat.f16.f16"),
    row<half_from_same<F16, Bound::kSaturate, true>>("cvt.ftz.sat.f16.f16"),
    row<half_from_same<BF16, Bound::kNone, false>>("cvt.bf16.bf16"),
    row<f32_from_half<F16, false>>("cvt{|.ftz}.f32.f16"),
    row<f32_from_half<F16, true>>("cvt{|.ftz}.sat.f32.f16"),
    row<f32_from_half<BF16, false>>("cvt.f32.bf16"),
    row<f64_from_half<F16, false>>("cvt.f64.f16"),
    row<f64_from_half<F16, true>>("cvt.sat.f64.f16"),
    row<f64_from_half<BF16, false>>("cvt.f64.bf16"),
    BYTES(E4M3, "e4m3x2"),
    BYTES(E5M2, "e5m2x2"),
    DIRECTED(F32_OF_F64, ),
    row<pack_words<u16>>("cvt.pack.sat.u16.s32"),
    row<pack_words<s16>>("cvt.pack.sat.s16.s32"),
    PACK(8, false, "u8"),
    PACK(8, true, "s8"),
    PACK(4, false, "u4"),
    PACK(4, true, "s4"),
    PACK(2, false, "u2"),
    PACK(2, true, "s2"),
};

}  // namespace

Entries CROPDL_TARGET::narrow() { return {"conversion", kEntries, sizeof kEntries / sizeof *kEntries}; }

}  // namespace cropdl::engine
