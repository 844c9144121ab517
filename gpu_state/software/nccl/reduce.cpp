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

// The storage of a type, and the type of one step's computation; each step's result is stored, so it is
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
  // holds products and sums of two values exactly enough, so that they are rounded once (small_floats.h)
  using Value = double;
  static Value load(Stored bits) { return Format::decode(bits); }
  static Stored store(Value value) { return Format::encode(value); }
};

// 8-bit types: NVIDIA's NCCL computes in half and converts back like cuda_fp8.h's constructors, saturating to
// the largest finite number (reduce_kernel.h, SPECIALIZE_REDUCE).
template <class Format>
struct Narrow : Small<Format> {
  static typename Format::Bits store(double value) {
    value = Half::decode(Half::encode(value));
    const double most = Format::decode(Format::kLargest);
    return Format::encode(std::isnan(value) ? value : std::clamp(value, -most, most));
  }
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
typename Type::Value load(const void* from, size_t i) {
  typename Type::Stored stored;
  std::memcpy(&stored, static_cast<const typename Type::Stored*>(from) + i, sizeof stored);
  return Type::load(stored);
}

template <class Type>
void store(void* to, size_t i, typename Type::Value value) {
  typename Type::Stored stored = Type::store(value);
  std::memcpy(static_cast<typename Type::Stored*>(to) + i, &stored, sizeof stored);
}

template <class Type>
struct Give {
  static void run(const Reduction& how, const void* from, void* to, size_t count) {
    using Value = typename Type::Value;
    bool averages = how.kind == ncclAvg && !std::is_integral_v<Value>;
    if (!how.scaled && !averages) return void(std::memcpy(to, from, count * sizeof(typename Type::Stored)));
    Value factor = how.scaled
                       ? load<Type>(how.scalar, 0)
                       : Type::load(Type::store(static_cast<Value>(1) / static_cast<Value>(how.average_of)));
    for (size_t i = 0; i < count; i++) store<Type>(to, i, times(load<Type>(from, i), factor));
  }
};

template <class Type>
struct Reduce {
  static void run(const Reduction& how, const void* const* sources, int number, void* to, size_t count) {
    using Value = typename Type::Value;
    constexpr bool kWhole = std::is_integral_v<Value>;
    for (size_t i = 0; i < count; i++) {
      Value sum = load<Type>(sources[0], i);
      for (int source = 1; source < number; source++) {
        Value next = load<Type>(sources[source], i);
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
      store<Type>(to, i, sum);
    }
  }
};

// Calls What<T>::run with the C++ type for NCCL's data type.
template <template <class> class What, class... Arguments>
void with_type(ncclDataType_t type, Arguments... arguments) {
  switch (type) {
    case ncclInt8:
      return What<Plain<int8_t>>::run(arguments...);
    case ncclUint8:
      return What<Plain<uint8_t>>::run(arguments...);
    case ncclInt32:
      return What<Plain<int32_t>>::run(arguments...);
    case ncclUint32:
      return What<Plain<uint32_t>>::run(arguments...);
    case ncclInt64:
      return What<Plain<int64_t>>::run(arguments...);
    case ncclUint64:
      return What<Plain<uint64_t>>::run(arguments...);
    case ncclFloat16:
      return What<Small<Half>>::run(arguments...);
    case ncclFloat32:
      return What<Plain<float>>::run(arguments...);
    case ncclFloat64:
      return What<Plain<double>>::run(arguments...);
    case ncclBfloat16:
      return What<Small<Brain>>::run(arguments...);
    case ncclFloat8e4m3:
      return What<Narrow<Float8E4M3>>::run(arguments...);
    case ncclFloat8e5m2:
      return What<Narrow<Float8E5M2>>::run(arguments...);
    default:
      return;
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

void give(const Reduction& how, ncclDataType_t type, const void* from, void* to, size_t count) {
  with_type<Give, const Reduction&>(type, how, from, to, count);
}

void reduce(const Reduction& how, ncclDataType_t type, const void* const* sources, int number, void* to,
            size_t count) {
  with_type<Reduce, const Reduction&>(type, how, sources, number, to, count);
}

}  // namespace cropdl::nccl
