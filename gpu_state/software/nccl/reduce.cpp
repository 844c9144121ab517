#include "gpu_state/software/nccl/reduce.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "gpu_state/software/arithmetic/small_floats.h"

namespace cropdl::nccl {

using arithmetic::Brain;
using arithmetic::Float8E4M3;
using arithmetic::Float8E5M2;
using arithmetic::Half;

namespace {

// How a type is stored, and what one step computes with: each step's result is stored again, that is,
// rounded.
template <class T>
struct Plain {
  using Stored = T;
  using Value = T;
  static Value load(Stored bits) { return bits; }
  static Stored store(Value value) { return value; }
};

template <class Format>
struct Small {
  using Stored = typename Format::Bits;
  using Value = double;  // holds each product and sum of two of them exactly enough: they are rounded once
                         // (small_floats.h)
  static Value load(Stored bits) { return Format::decode(bits); }
  static Stored store(Value value) { return Format::encode(value); }
};

template <class V>
V times(V a, V b) {
  if constexpr (std::is_integral_v<V>)
    return static_cast<V>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
  else
    return a * b;
}

template <class V>
V plus(V a, V b) {
  if constexpr (std::is_integral_v<V>)
    return static_cast<V>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
  else
    return a + b;
}

template <class Type>
void reduce_as(const Reduction& how, const void* const* sources, int number, void* to, size_t count) {
  using Stored = typename Type::Stored;
  using Value = typename Type::Value;
  constexpr bool kWhole = std::is_integral_v<Value>;
  bool scaled = how.scaled;
  Value factor{};
  if (how.scaled) {
    Stored stored;
    std::memcpy(&stored, how.scalar, sizeof stored);
    factor = Type::load(stored);
  } else if (how.kind == ncclAvg && !kWhole) {
    scaled = true;
    factor = Type::load(Type::store(static_cast<Value>(1) / static_cast<Value>(how.average_of)));
  }
  auto take = [&](int source, size_t i) {
    Stored stored;
    std::memcpy(&stored, static_cast<const Stored*>(sources[source]) + i, sizeof stored);
    Value value = Type::load(stored);
    return scaled ? Type::load(Type::store(times(value, factor))) : value;
  };
  for (size_t i = 0; i < count; i++) {
    Value sum = take(0, i);
    for (int source = 1; source < number; source++) {
      Value next = take(source, i);
      switch (how.kind) {
        case ncclProd:
          sum = times(sum, next);
          break;
        case ncclMax:
          if constexpr (kWhole)
            sum = std::max(sum, next);
          else
            sum = std::fmax(sum, next);
          break;
        case ncclMin:
          if constexpr (kWhole)
            sum = std::min(sum, next);
          else
            sum = std::fmin(sum, next);
          break;
        default:
          sum = plus(sum, next);
      }
      sum = Type::load(Type::store(sum));
    }
    if constexpr (kWhole)
      if (how.kind == ncclAvg) sum = static_cast<Value>(sum / static_cast<Value>(how.average_of));
    Stored stored = Type::store(sum);
    std::memcpy(static_cast<Stored*>(to) + i, &stored, sizeof stored);
  }
}

}  // namespace

size_t size_of(ncclDataType_t type) {
  switch (type) {
    case ncclInt8:
    case ncclUint8:
    case ncclFloat8e4m3:
    case ncclFloat8e5m2:
      return 1;
    case ncclFloat16:
    case ncclBfloat16:
      return 2;
    case ncclInt32:
    case ncclUint32:
    case ncclFloat32:
      return 4;
    case ncclInt64:
    case ncclUint64:
    case ncclFloat64:
      return 8;
    default:
      return 0;
  }
}

void reduce(const Reduction& how, ncclDataType_t type, const void* const* sources, int number, void* to,
            size_t count) {
  switch (type) {
    case ncclInt8:
      return reduce_as<Plain<int8_t>>(how, sources, number, to, count);
    case ncclUint8:
      return reduce_as<Plain<uint8_t>>(how, sources, number, to, count);
    case ncclInt32:
      return reduce_as<Plain<int32_t>>(how, sources, number, to, count);
    case ncclUint32:
      return reduce_as<Plain<uint32_t>>(how, sources, number, to, count);
    case ncclInt64:
      return reduce_as<Plain<int64_t>>(how, sources, number, to, count);
    case ncclUint64:
      return reduce_as<Plain<uint64_t>>(how, sources, number, to, count);
    case ncclFloat16:
      return reduce_as<Small<Half>>(how, sources, number, to, count);
    case ncclFloat32:
      return reduce_as<Plain<float>>(how, sources, number, to, count);
    case ncclFloat64:
      return reduce_as<Plain<double>>(how, sources, number, to, count);
    case ncclBfloat16:
      return reduce_as<Small<Brain>>(how, sources, number, to, count);
    case ncclFloat8e4m3:
      return reduce_as<Small<Float8E4M3>>(how, sources, number, to, count);
    case ncclFloat8e5m2:
      return reduce_as<Small<Float8E5M2>>(how, sources, number, to, count);
    default:
      return;
  }
}

}  // namespace cropdl::nccl
