// Rows of the video instructions without byte and half selectors (%r1.b0): an operand is a whole register.
// PTX ISA 9.0, "Video Instructions". All except vabsdiff4 are rare: compiled once, lane by lane.
#include "gpu_state/software/arithmetic/video.h"

#include "gpu_state/software/engine/data/tables.h"

namespace cropdl::engine {
namespace {

// The bits of `types` are the signs of destination, a and b.
#define SIGNS(MACRO, ...)                                    \
  MACRO(false, false, false, "u32.u32.u32", __VA_ARGS__),    \
      MACRO(false, false, true, "u32.u32.s32", __VA_ARGS__), \
      MACRO(false, true, false, "u32.s32.u32", __VA_ARGS__), \
      MACRO(false, true, true, "u32.s32.s32", __VA_ARGS__),  \
      MACRO(true, false, false, "s32.u32.u32", __VA_ARGS__), \
      MACRO(true, false, true, "s32.u32.s32", __VA_ARGS__),  \
      MACRO(true, true, false, "s32.s32.u32", __VA_ARGS__),  \
      MACRO(true, true, true, "s32.s32.s32", __VA_ARGS__)
#define PARTS(d, a, b, types, width, what, opcode)                                       \
  long_row<video_parts<width, what, d, a, b, false, false>>(opcode "." types),           \
      long_row<video_parts<width, what, d, a, b, true, false>>(opcode "." types ".sat"), \
      long_row<video_parts<width, what, d, a, b, false, true>>(opcode "." types ".add")
#define WORD(d, a, b, types, what, opcode)                                                       \
  long_row<video_word<what, d, a, b, false>>(opcode "." types),                                  \
      long_row<video_word<what, d, a, b, true>>(opcode "." types ".sat"),                        \
      long_row<video_word_then<what, d, a, b, false, Then::kAdd>>(opcode "." types ".add"),      \
      long_row<video_word_then<what, d, a, b, true, Then::kAdd>>(opcode "." types ".sat.add"),   \
      long_row<video_word_then<what, d, a, b, false, Then::kLeast>>(opcode "." types ".min"),    \
      long_row<video_word_then<what, d, a, b, true, Then::kLeast>>(opcode "." types ".sat.min"), \
      long_row<video_word_then<what, d, a, b, false, Then::kGreatest>>(opcode "." types ".max"), \
      long_row<video_word_then<what, d, a, b, true, Then::kGreatest>>(opcode "." types ".sat.max")
#define SIMD(what, name) SIGNS(PARTS, 16, what, name "2"), SIGNS(PARTS, 8, what, name "4")
#define ALL(what, name) SIMD(what, name), SIGNS(WORD, what, name)
#define SET_OF(relation, r, a, b, types)                                          \
  long_row<video_set<16, relation, a, b, false>>("vset2." types "." r),           \
      long_row<video_set<16, relation, a, b, true>>("vset2." types "." r ".add"), \
      long_row<video_set<8, relation, a, b, false>>("vset4." types "." r),        \
      long_row<video_set<8, relation, a, b, true>>("vset4." types "." r ".add"),  \
      long_row<video_set_word<relation, a, b>>("vset." types "." r),              \
      long_row<video_set<32, relation, a, b, true>>("vset." types "." r ".add")
#define SET(relation, r)                                                                     \
  SET_OF(relation, r, false, false, "u32.u32"), SET_OF(relation, r, false, true, "u32.s32"), \
      SET_OF(relation, r, true, false, "s32.u32"), SET_OF(relation, r, true, true, "s32.s32")

constexpr Entry kEntries[] = {
    ALL(Video::kAdd, "vadd"),   ALL(Video::kSubtract, "vsub"), ALL(Video::kDifference, "vabsdiff"),
    ALL(Video::kLeast, "vmin"), ALL(Video::kGreatest, "vmax"), SIMD(Video::kAverage, "vavrg"),
    SET(Relation::kEq, "eq"),   SET(Relation::kNe, "ne"),      SET(Relation::kLt, "lt"),
    SET(Relation::kLe, "le"),   SET(Relation::kGt, "gt"),      SET(Relation::kGe, "ge"),
};

}  // namespace

Entries CROPDL_TARGET::video() { return {"video", kEntries, sizeof kEntries / sizeof *kEntries}; }

}  // namespace cropdl::engine
