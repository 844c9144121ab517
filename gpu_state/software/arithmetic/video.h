// Video instructions on bytes and halves of registers. Source: PTX ISA 9.0, "Video Instructions". Each part
// is computed in 64 bits; `W` is the width of a part.
#pragma once

#include "gpu_state/software/arithmetic/integer.h"

namespace cropdl::arithmetic {
inline namespace CROPDL_TARGET {

enum class Video { kAdd, kSubtract, kDifference, kLeast, kGreatest, kAverage };
enum class Then { kNothing, kAdd, kLeast, kGreatest };

template <Video what>
constexpr s64 video(s64 a, s64 b) {
  switch (what) {
    case Video::kAdd:
      return a + b;
    case Video::kSubtract:
      return a - b;
    case Video::kDifference:
      return a > b ? a - b : b - a;
    case Video::kLeast:
      return a < b ? a : b;
    case Video::kGreatest:
      return a > b ? a : b;
    case Video::kAverage: {
      // Rounded away from zero.
      const s64 sum = a + b;
      return sum >= 0 ? (sum + 1) >> 1 : -((-sum + 1) >> 1);
    }
  }
}
template <int width, bool is_signed>
constexpr s64 part(u32 a, int index) {
  const u32 value = a >> (width * index);
  if constexpr (width == 32) return is_signed ? s64(s32(value)) : s64(value);
  const u32 low = value & ((u32(1) << (width % 32)) - 1);
  return is_signed && (low >> (width - 1) & 1) ? s64(low) - (s64(1) << width) : s64(low);
}
template <int width, bool is_signed>
constexpr s64 bounded(s64 value) {
  constexpr s64 most = is_signed ? (s64(1) << (width - 1)) - 1 : (s64(1) << width) - 1;
  constexpr s64 least_value = is_signed ? -(s64(1) << (width - 1)) : 0;
  return value > most ? most : value < least_value ? least_value : value;
}
// vadd, vadd2, vadd4 …: without a second operation, writes the parts in the mask (all, or the default); with
// .add, sums them with c.
template <int width, Video what, bool to_signed, bool a_signed, bool b_signed, bool saturate, bool sum>
constexpr u32 video_parts(u32 a, u32 b, u32 c) {
  constexpr u32 mask = width == 32 ? ~u32(0) : (u32(1) << (width % 32)) - 1;
  u32 result = 0, total = c;
  for (int i = 0; i < 32 / width; ++i) {
    s64 value = video<what>(part<width, a_signed>(a, i), part<width, b_signed>(b, i));
    if (saturate) value = bounded<width, to_signed>(value);
    result |= (u32(value) & mask) << (width * i);
    // Summed as values of the destination's type.
    total += u32(part<width, to_signed>(u32(value) & mask, 0));
  }
  return sum ? total : result;
}
template <Video what, bool to_signed, bool a_signed, bool b_signed, bool saturate>
constexpr u32 video_word(u32 a, u32 b) {
  return video_parts<32, what, to_signed, a_signed, b_signed, saturate, false>(a, b, 0);
}
template <Video what, bool to_signed, bool a_signed, bool b_signed, bool saturate, Then then>
constexpr u32 video_word_then(u32 a, u32 b, u32 c) {
  const u32 value = video_word<what, to_signed, a_signed, b_signed, saturate>(a, b);
  if (then == Then::kAdd) return value + c;
  const bool is_less = to_signed ? s32(value) < s32(c) : value < c;
  return is_less == (then == Then::kLeast) ? value : c;
}

enum class Relation { kEq, kNe, kLt, kLe, kGt, kGe };
template <int width, Relation relation, bool a_signed, bool b_signed, bool sum>
constexpr u32 video_set(u32 a, u32 b, u32 c) {
  u32 result = 0, total = c;
  for (int i = 0; i < 32 / width; ++i) {
    const s64 x = part<width, a_signed>(a, i), y = part<width, b_signed>(b, i);
    bool holds = false;
    switch (relation) {
      case Relation::kEq:
        holds = x == y;
        break;
      case Relation::kNe:
        holds = x != y;
        break;
      case Relation::kLt:
        holds = x < y;
        break;
      case Relation::kLe:
        holds = x <= y;
        break;
      case Relation::kGt:
        holds = x > y;
        break;
      case Relation::kGe:
        holds = x >= y;
        break;
    }
    result |= u32(holds) << ((width % 32) * i);
    total += holds;
  }
  return sum ? total : result;
}
template <Relation relation, bool a_signed, bool b_signed>
constexpr u32 video_set_word(u32 a, u32 b) {
  return video_set<32, relation, a_signed, b_signed, false>(a, b, 0);
}

}  // namespace CROPDL_TARGET
}  // namespace cropdl::arithmetic
