// Rows of cvt between integers and 16-bit formats, and from integers in directed rounding. PTX ISA 9.0,
// "cvt". Many rows, rarely used: compiled once, lane by lane.
#include "gpu_state/software/arithmetic/narrow.h"
#include "gpu_state/software/engine/data/tables.h"

namespace cropdl::engine {
namespace {

template <class F, class RS, class S, Rounding rounding, Bound bound>
constexpr u16 half_of(Unsigned<RS> a) {
  return half_from_integer<F, S, rounding, bound>(S(a));
}
template <class RS, class S, Rounding rounding, bool saturate>
constexpr float f32_of_integer(Unsigned<RS> a) {
  return f32_from_integer_directed<S, rounding, saturate>(S(a));
}
template <class RS, class S, Rounding rounding, bool saturate>
constexpr double f64_of_integer(Unsigned<RS> a) {
  return f64_from_integer_directed<S, rounding, saturate>(S(a));
}
template <class RD, class D, class F, Integral rounding, bool flush>
inline Unsigned<RD> integer_of(u16 a) {
  return Unsigned<RD>(RD(integer_from_half<D, F, rounding, flush>(a)));
}

#define EACH_ROUNDING(MACRO, ...)                                                          \
  MACRO(Rounding::kNearest, "rn", __VA_ARGS__), MACRO(Rounding::kZero, "rz", __VA_ARGS__), \
      MACRO(Rounding::kDown, "rm", __VA_ARGS__), MACRO(Rounding::kUp, "rp", __VA_ARGS__)
#define DIRECTED(MACRO, ...)                                                            \
  MACRO(Rounding::kZero, "rz", __VA_ARGS__), MACRO(Rounding::kDown, "rm", __VA_ARGS__), \
      MACRO(Rounding::kUp, "rp", __VA_ARGS__)
// Registers of every width that can hold an integer type.
#define EACH_INTEGER(MACRO)                                                                           \
  MACRO(u16, u8, "u8"), MACRO(u32, u8, "u8"), MACRO(u64, u8, "u8"), MACRO(s16, s8, "s8"),             \
      MACRO(s32, s8, "s8"), MACRO(s64, s8, "s8"), MACRO(u16, u16, "u16"), MACRO(u32, u16, "u16"),     \
      MACRO(u64, u16, "u16"), MACRO(s16, s16, "s16"), MACRO(s32, s16, "s16"), MACRO(s64, s16, "s16"), \
      MACRO(u32, u32, "u32"), MACRO(u64, u32, "u32"), MACRO(s32, s32, "s32"), MACRO(s64, s32, "s32"), \
      MACRO(u64, u64, "u64"), MACRO(s64, s64, "s64")

#define HALF_OF_INTEGER(rounding, r, RS, S, s)                                           \
  long_row<half_of<F16, RS, S, rounding, Bound::kNone>>("cvt." r ".f16." s),             \
      long_row<half_of<F16, RS, S, rounding, Bound::kSaturate>>("cvt." r ".sat.f16." s), \
      long_row<half_of<BF16, RS, S, rounding, Bound::kNone>>("cvt." r ".bf16." s)
#define HALVES_OF_INTEGER(RS, S, s) EACH_ROUNDING(HALF_OF_INTEGER, RS, S, s)
#define FLOAT_OF_INTEGER(rounding, r, RS, S, s)                                       \
  long_row<f32_of_integer<RS, S, rounding, false>>("cvt." r "{|.ftz}.f32." s),        \
      long_row<f32_of_integer<RS, S, rounding, true>>("cvt." r "{|.ftz}.sat.f32." s), \
      long_row<f64_of_integer<RS, S, rounding, false>>("cvt." r ".f64." s),           \
      long_row<f64_of_integer<RS, S, rounding, true>>("cvt." r ".sat.f64." s)
#define FLOATS_OF_INTEGER(RS, S, s) DIRECTED(FLOAT_OF_INTEGER, RS, S, s)

#define INTEGER_OF(F, flush, ftz, f, RD, D, d)                                                  \
  long_row<integer_of<RD, D, F, Integral::kNearest, flush>>("cvt.rni" ftz "{|.sat}." d "." f),  \
      long_row<integer_of<RD, D, F, Integral::kZero, flush>>("cvt.rzi" ftz "{|.sat}." d "." f), \
      long_row<integer_of<RD, D, F, Integral::kDown, flush>>("cvt.rmi" ftz "{|.sat}." d "." f), \
      long_row<integer_of<RD, D, F, Integral::kUp, flush>>("cvt.rpi" ftz "{|.sat}." d "." f)
#define INTEGERS_OF(RD, D, d)                                                                  \
  INTEGER_OF(F16, false, "", "f16", RD, D, d), INTEGER_OF(F16, true, ".ftz", "f16", RD, D, d), \
      INTEGER_OF(BF16, false, "", "bf16", RD, D, d)

constexpr Entry kEntries[] = {
    EACH_INTEGER(HALVES_OF_INTEGER),
    EACH_INTEGER(FLOATS_OF_INTEGER),
    EACH_INTEGER(INTEGERS_OF),
};

}  // namespace

Entries CROPDL_TARGET::narrow_integer() {
  return {"conversion", kEntries, sizeof kEntries / sizeof *kEntries};
}

}  // namespace cropdl::engine
