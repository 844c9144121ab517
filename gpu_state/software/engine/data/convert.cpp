// Rows of cvt among integers, f32 and f64, rounding to nearest; narrow.cpp has 16-bit and smaller formats and
// directed rounding. PTX ISA 9.0, "cvt"; "Operand size exceeding instruction-type size" for wider registers.
#include "gpu_state/software/arithmetic/convert.h"

#include "gpu_state/software/engine/data/tables.h"

namespace cropdl::engine {
namespace {

// From a register of type RS, whose low bits are an S, to a register of type RD.
template <class RD, class D, class RS, class S, bool saturate>
constexpr Unsigned<RD> between(Unsigned<RS> a) {
  return Unsigned<RD>(RD(convert_integer<D, S, saturate>(S(a))));
}
template <class RD, class D, class F, Integral rounding, bool flush>
inline Unsigned<RD> integer_of(F a) {
  return Unsigned<RD>(RD(round_to_integer<D, F, rounding, flush>(a)));
}
template <class F, class RS, class S, bool saturate>
constexpr F float_of(Unsigned<RS> a) {
  return from_integer<F, S, saturate>(S(a));
}

// RD and RS have the signedness of D and S, so that a plain conversion extends correctly.
#define PAIR(RD, D, RS, S, d, s) \
  row<between<RD, D, RS, S, false>>("cvt." d "." s), row<between<RD, D, RS, S, true>>("cvt.sat." d "." s)
#define FROM_EACH(RD, D, d)                                                                              \
  PAIR(RD, D, u16, u8, d, "u8"), PAIR(RD, D, u32, u8, d, "u8"), PAIR(RD, D, u64, u8, d, "u8"),           \
      PAIR(RD, D, s16, s8, d, "s8"), PAIR(RD, D, s32, s8, d, "s8"), PAIR(RD, D, s64, s8, d, "s8"),       \
      PAIR(RD, D, u16, u16, d, "u16"), PAIR(RD, D, u32, u16, d, "u16"), PAIR(RD, D, u64, u16, d, "u16"), \
      PAIR(RD, D, s16, s16, d, "s16"), PAIR(RD, D, s32, s16, d, "s16"), PAIR(RD, D, s64, s16, d, "s16"), \
      PAIR(RD, D, u32, u32, d, "u32"), PAIR(RD, D, u64, u32, d, "u32"), PAIR(RD, D, s32, s32, d, "s32"), \
      PAIR(RD, D, s64, s32, d, "s32"), PAIR(RD, D, u64, u64, d, "u64"), PAIR(RD, D, s64, s64, d, "s64")

#define ROUNDED(RD, D, F, flush, ftz, d, f)                                                \
  row<integer_of<RD, D, F, Integral::kNearest, flush>>("cvt.rni" ftz "{|.sat}." d "." f),  \
      row<integer_of<RD, D, F, Integral::kZero, flush>>("cvt.rzi" ftz "{|.sat}." d "." f), \
      row<integer_of<RD, D, F, Integral::kDown, flush>>("cvt.rmi" ftz "{|.sat}." d "." f), \
      row<integer_of<RD, D, F, Integral::kUp, flush>>("cvt.rpi" ftz "{|.sat}." d "." f)
#define TO_INTEGER(RD, D, d)                                                                 \
  ROUNDED(RD, D, float, false, "", d, "f32"), ROUNDED(RD, D, float, true, ".ftz", d, "f32"), \
      ROUNDED(RD, D, double, false, "", d, "f64")
#define FROM_INTEGER(RS, S, s)                                       \
  row<float_of<float, RS, S, false>>("cvt.rn{|.ftz}.f32." s),        \
      row<float_of<float, RS, S, true>>("cvt.rn{|.ftz}.sat.f32." s), \
      row<float_of<double, RS, S, false>>("cvt.rn.f64." s),          \
      row<float_of<double, RS, S, true>>("cvt.rn.sat.f64." s)
#define INTEGRAL(rounding, name)                                               \
  row<integral_f32<rounding, false, false>>("cvt." name ".f32.f32"),           \
      row<integral_f32<rounding, true, false>>("cvt." name ".ftz.f32.f32"),    \
      row<integral_f32<rounding, false, true>>("cvt." name ".sat.f32.f32"),    \
      row<integral_f32<rounding, true, true>>("cvt." name ".ftz.sat.f32.f32"), \
      row<integral_f64<rounding, false>>("cvt." name ".f64.f64"),              \
      row<integral_f64<rounding, true>>("cvt." name ".sat.f64.f64")

constexpr Entry kEntries[] = {
    FROM_EACH(u16, u8, "u8"),
    FROM_EACH(u32, u8, "u8"),
    FROM_EACH(u64, u8, "u8"),
    FROM_EACH(s16, s8, "s8"),
    FROM_EACH(s32, s8, "s8"),
    FROM_EACH(s64, s8, "s8"),
    FROM_EACH(u16, u16, "u16"),
    FROM_EACH(u32, u16, "u16"),
    FROM_EACH(u64, u16, "u16"),
    FROM_EACH(s16, s16, "s16"),
    FROM_EACH(s32, s16, "s16"),
    FROM_EACH(s64, s16, "s16"),
    FROM_EACH(u32, u32, "u32"),
    FROM_EACH(u64, u32, "u32"),
    FROM_EACH(s32, s32, "s32"),
    FROM_EACH(s64, s32, "s32"),
    FROM_EACH(u64, u64, "u64"),
    FROM_EACH(s64, s64, "s64"),
    TO_INTEGER(u16, u8, "u8"),
    TO_INTEGER(u32, u8, "u8"),
    TO_INTEGER(u64, u8, "u8"),
    TO_INTEGER(s16, s8, "s8"),
    TO_INTEGER(s32, s8, "s8"),
    TO_INTEGER(s64, s8, "s8"),
    TO_INTEGER(u16, u16, "u16"),
    TO_INTEGER(u32, u16, "u16"),
    TO_INTEGER(u64, u16, "u16"),
    TO_INTEGER(s16, s16, "s16"),
    TO_INTEGER(s32, s16, "s16"),
    TO_INTEGER(s64, s16, "s16"),
    TO_INTEGER(u32, u32, "u32"),
    TO_INTEGER(u64, u32, "u32"),
    TO_INTEGER(s32, s32, "s32"),
    TO_INTEGER(s64, s32, "s32"),
    TO_INTEGER(u64, u64, "u64"),
    TO_INTEGER(s64, s64, "s64"),
    FROM_INTEGER(u16, u8, "u8"),
    FROM_INTEGER(u32, u8, "u8"),
    FROM_INTEGER(u64, u8, "u8"),
    FROM_INTEGER(s16, s8, "s8"),
    FROM_INTEGER(s32, s8, "s8"),
    FROM_INTEGER(s64, s8, "s8"),
    FROM_INTEGER(u16, u16, "u16"),
    FROM_INTEGER(u32, u16, "u16"),
    FROM_INTEGER(u64, u16, "u16"),
    FROM_INTEGER(s16, s16, "s16"),
    FROM_INTEGER(s32, s16, "s16"),
    FROM_INTEGER(s64, s16, "s16"),
    FROM_INTEGER(u32, u32, "u32"),
    FROM_INTEGER(u64, u32, "u32"),
    FROM_INTEGER(s32, s32, "s32"),
    FROM_INTEGER(s64, s32, "s32"),
    FROM_INTEGER(u64, u64, "u64"),
    FROM_INTEGER(s64, s64, "s64"),
    INTEGRAL(Integral::kNearest, "rni"),
    INTEGRAL(Integral::kZero, "rzi"),
    INTEGRAL(Integral::kDown, "rmi"),
    INTEGRAL(Integral::kUp, "rpi"),
    row<f32_from_f32<false, false>>("cvt.f32.f32"),
    row<f32_from_f32<true, false>>("cvt.ftz.f32.f32"),
    row<f32_from_f32<false, true>>("cvt.sat.f32.f32"),
    row<f32_from_f32<true, true>>("cvt.ftz.sat.f32.f32"),
    row<f64_from_f64<false>>("cvt.f64.f64"),
    row<f64_from_f64<true>>("cvt.sat.f64.f64"),
    row<f64_from_f32<false, false>>("cvt.f64.f32"),
    row<f64_from_f32<true, false>>("cvt.ftz.f64.f32"),
    row<f64_from_f32<false, true>>("cvt.sat.f64.f32"),
    row<f64_from_f32<true, true>>("cvt.ftz.sat.f64.f32"),
    row<f32_from_f64<false, false>>("cvt.rn.f32.f64"),
    row<f32_from_f64<true, false>>("cvt.rn.ftz.f32.f64"),
    row<f32_from_f64<false, true>>("cvt.rn.sat.f32.f64"),
    row<f32_from_f64<true, true>>("cvt.rn.ftz.sat.f32.f64"),
};

}  // namespace

Entries CROPDL_TARGET::convert() { return {"conversion", kEntries, sizeof kEntries / sizeof *kEntries}; }

}  // namespace cropdl::engine
