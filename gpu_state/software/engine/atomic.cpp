// atom and red over 32 lanes, one lane after the other. Global memory uses the host's atomics, since other
// threads run other blocks; in shared and local memory nothing else runs meanwhile (PTX ISA, "atom", "red").
#include <bit>
#include <cmath>
#include <cstring>

#include "gpu_state/software/engine/memory.h"

namespace cropdl::engine {

namespace {

__extension__ using u128 = unsigned __int128;

// 16-bit formats are computed as float: a sum of two is exact enough there that the second rounding does no
// harm.
float from_half(uint16_t bits) {
  uint32_t sign = uint32_t(bits & 0x8000) << 16, exponent = bits >> 10 & 31, fraction = bits & 0x3ff;
  if (exponent == 0) {
    float value = std::ldexp(static_cast<float>(fraction), -24);
    return sign ? -value : value;
  }
  uint32_t all =
      exponent == 31 ? sign | 0x7f800000 | fraction << 13 : sign | (exponent + 112) << 23 | fraction << 13;
  float value;
  std::memcpy(&value, &all, 4);
  return value;
}
uint16_t to_half(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  uint16_t sign = static_cast<uint16_t>(bits >> 16 & 0x8000);
  uint32_t magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000) return 0x7fff;
  if (magnitude >= 0x477ff000) return sign | 0x7c00;  // rounds to at least 2^16
  if (magnitude < 0x38800000) {                       // below the smallest normal number: steps of 2^-24
    float scaled = std::ldexp(std::fabs(value), 24);
    return static_cast<uint16_t>(sign | static_cast<uint16_t>(std::nearbyint(scaled)));
  }
  uint32_t rounded = magnitude + 0xfff + (magnitude >> 13 & 1);
  return static_cast<uint16_t>(sign | ((rounded - 0x38000000) >> 13));
}
float from_brain(uint16_t bits) {
  uint32_t all = uint32_t(bits) << 16;
  float value;
  std::memcpy(&value, &all, 4);
  return value;
}
uint16_t to_brain(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  if ((bits & 0x7fffffff) > 0x7f800000) return 0x7fff;
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
float flushed(float value) {
  return std::fpclassify(value) == FP_SUBNORMAL ? std::copysign(0.0f, value) : value;
}

template <class F>
F smaller(F a, F b) {  // NaN is handled by the caller; -0 is below +0
  if (std::isnan(a)) return b;
  if (std::isnan(b)) return a;
  if (a == b) return std::signbit(a) ? a : b;
  return a < b ? a : b;
}
template <class F>
F larger(F a, F b) {
  if (std::isnan(a)) return b;
  if (std::isnan(b)) return a;
  if (a == b) return std::signbit(a) ? b : a;
  return a > b ? a : b;
}

template <class U, class F>
U as(F value) {
  U bits;
  static_assert(sizeof bits == sizeof value);
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

template <Atomic kWhat>
uint16_t small_float(uint16_t a, uint16_t b, float (*from)(uint16_t), uint16_t (*to)(float)) {
  float x = from(a), y = from(b);
  if constexpr (kWhat == Atomic::kAdd) return to(x + y);
  if constexpr (kWhat == Atomic::kMinimum) return to(smaller(x, y));
  return to(larger(x, y));
}

// The new value in memory.
template <Atomic kWhat, Number kNumber, class U>
U applied(U old, U b, U c, bool global) {
  if constexpr (kWhat == Atomic::kExchange) return b;
  if constexpr (kWhat == Atomic::kCompare) return old == b ? c : old;
  if constexpr (kWhat == Atomic::kAnd) return old & b;
  if constexpr (kWhat == Atomic::kOr) return old | b;
  if constexpr (kWhat == Atomic::kXor) return old ^ b;
  if constexpr (kWhat == Atomic::kIncrement) return old >= b ? 0 : old + 1;
  if constexpr (kWhat == Atomic::kDecrement) return old == 0 || old > b ? b : old - 1;
  if constexpr (kNumber == Number::kFloat && sizeof(U) == 4) {
    // "on global memory flushes subnormal inputs and results"; on shared memory it does not.
    float x = as<float>(old), y = as<float>(b);
    if (global) x = flushed(x), y = flushed(y);
    float sum = x + y;
    if (global) sum = flushed(sum);
    return std::isnan(sum) ? 0x7fffffffu : as<U>(sum);
  }
  if constexpr (kNumber == Number::kFloat && sizeof(U) == 8) return as<U>(as<double>(old) + as<double>(b));
  if constexpr (kNumber == Number::kHalf && sizeof(U) == 2)
    return small_float<kWhat>(old, b, from_half, to_half);
  if constexpr (kNumber == Number::kBrain && sizeof(U) == 2)
    return small_float<kWhat>(old, b, from_brain, to_brain);
  if constexpr ((kNumber == Number::kHalf2 || kNumber == Number::kBrain2) && sizeof(U) == 4) {
    auto half = [&](int shift) -> uint32_t {
      auto x = static_cast<uint16_t>(old >> shift), y = static_cast<uint16_t>(b >> shift);
      if constexpr (kNumber == Number::kHalf2) return small_float<kWhat>(x, y, from_half, to_half);
      return small_float<kWhat>(x, y, from_brain, to_brain);
    };
    return half(0) | half(16) << 16;
  }
  if constexpr (kWhat == Atomic::kAdd) return old + b;
  if constexpr (sizeof(U) <= 8) {
    using S = std::make_signed_t<U>;
    if constexpr (kNumber == Number::kSigned) {
      bool less = static_cast<S>(old) < static_cast<S>(b);
      return less == (kWhat == Atomic::kMinimum) ? old : b;
    } else {
      bool less = old < b;
      return less == (kWhat == Atomic::kMinimum) ? old : b;
    }
  }
  return old;
}

template <Atomic kWhat, Number kNumber, class U>
U on_host(U* memory, U b, U c) {
  if constexpr (kWhat == Atomic::kAdd &&
                (kNumber == Number::kUnsigned || kNumber == Number::kSigned || kNumber == Number::kBits))
    return __atomic_fetch_add(memory, b, __ATOMIC_SEQ_CST);
  if constexpr (kWhat == Atomic::kAnd) return __atomic_fetch_and(memory, b, __ATOMIC_SEQ_CST);
  if constexpr (kWhat == Atomic::kOr) return __atomic_fetch_or(memory, b, __ATOMIC_SEQ_CST);
  if constexpr (kWhat == Atomic::kXor) return __atomic_fetch_xor(memory, b, __ATOMIC_SEQ_CST);
  if constexpr (kWhat == Atomic::kExchange) return __atomic_exchange_n(memory, b, __ATOMIC_SEQ_CST);
  if constexpr (kWhat == Atomic::kCompare) {
    __atomic_compare_exchange_n(memory, &b, c, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
    return b;
  }
  U old = __atomic_load_n(memory, __ATOMIC_SEQ_CST);
  while (!__atomic_compare_exchange_n(memory, &old, applied<kWhat, kNumber, U>(old, b, c, true), true,
                                      __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
  }
  return old;
}
// 16 bytes: a single instruction on every supported processor (x86-64-v2).
template <Atomic kWhat>
[[gnu::target("cx16")]] u128 on_host_wide(u128* memory, u128 b, u128 c) {
  if constexpr (kWhat == Atomic::kCompare) return __sync_val_compare_and_swap(memory, b, c);
  u128 old = *memory;
  for (;;) {
    u128 seen = __sync_val_compare_and_swap(memory, old, b);
    if (seen == old) return old;
    old = seen;
  }
}

template <Atomic kWhat, Number kNumber, class U, bool kReturns>
void execute(Warp& base, const Instruction& in, uint32_t active) {
  WarpRun& warp = static_cast<WarpRun&>(base);
  const uint32_t n = in.extra & kCountMask;
  const Area area = static_cast<Area>(in.extra >> kAreaShift & 7);
  const uint32_t size = static_cast<uint32_t>(sizeof(U)) * n;
  // Eight results and eight sources are in `many`, followed by the address and its offset.
  const bool has_many = kReturns && n == kMostElements;
  const Place* operands = has_many ? in.many : in.operands;
  const Place register_at = operands[has_many ? kManyAddress : kAddress];
  const uint64_t offset =
      has_many ? *warp.lanes<uint64_t>(operands[kManyOffset]) : static_cast<uint64_t>(in.immediate);
  const Place* sources = operands + (kReturns ? n : 0);
  bool changes = !kReturns;  // an atomic that returns the old value and stores it unchanged is only a read
  uint64_t first = 0, seen = 0;
  for (uint32_t l = 0; l < kLanes; ++l) {
    if (!(active >> l & 1)) continue;
    uint64_t address = offset;
    if (!(in.extra & kNoBase))
      address = in.extra & kNarrowAddress ? uint32_t(warp.lanes<uint32_t>(register_at)[l] + uint32_t(address))
                                          : warp.lanes<uint64_t>(register_at)[l] + address;
    std::byte* where = resolve(warp, l, area, address, size, true);
    if (!where) return;
    const bool host =
        area == Area::kGlobal ||
        (area == Area::kGeneric && (address >> kWindowShift == 0 || address >> kWindowShift == 4));
    if (n > 1 && !host)
      return warp.fault(l, CUDA_ERROR_ILLEGAL_ADDRESS, address,
                        "a vector's atomics are of global memory, which is not at");
    if (l == static_cast<uint32_t>(std::countr_zero(active))) first = address;
    U given[kMostElements], c = 0;  // a result's register may also be a source's
    for (uint32_t k = 0; k < n; ++k) given[k] = warp.lanes<U>(sources[k])[l];
    if constexpr (kWhat == Atomic::kCompare) c = warp.lanes<U>(sources[1])[l];
    for (uint32_t k = 0; k < n; ++k) {
      U* memory = reinterpret_cast<U*>(where) + k;
      U b = given[k], old = 0;
      if (host) {
        if constexpr (sizeof(U) == 16)
          old = on_host_wide<kWhat>(memory, b, c);
        else
          old = on_host<kWhat, kNumber, U>(memory, b, c);
      } else {
        old = *memory;
        *memory = applied<kWhat, kNumber, U>(old, b, c, false);
      }
      if constexpr (kReturns) {
        changes |= applied<kWhat, kNumber, U>(old, b, c, host) != old;
        seen = (seen ^ static_cast<uint64_t>(old) ^ static_cast<uint64_t>(b) << 7) * 0x9e3779b97f4a7c15u;
        warp.lanes<U>(operands[k])[l] = old;
      }
    }
  }
  if (!changes) warp.looked(in, active, first, seen);
}

template <Atomic kWhat, Number kNumber, class U>
Instruction::Execute with(const AtomicForm& form) {
  return form.returns ? execute<kWhat, kNumber, U, true> : execute<kWhat, kNumber, U, false>;
}

template <Atomic kWhat>
Instruction::Execute integer(const AtomicForm& form) {
  if (form.number == Number::kSigned) {
    if (form.size == 4) return with<kWhat, Number::kSigned, uint32_t>(form);
    if (form.size == 8) return with<kWhat, Number::kSigned, uint64_t>(form);
  }
  if (form.number == Number::kUnsigned) {
    if (form.size == 4) return with<kWhat, Number::kUnsigned, uint32_t>(form);
    if (form.size == 8) return with<kWhat, Number::kUnsigned, uint64_t>(form);
  }
  return nullptr;
}

template <Atomic kWhat>
Instruction::Execute small(const AtomicForm& form) {
  switch (form.number) {
    case Number::kHalf:
      return with<kWhat, Number::kHalf, uint16_t>(form);
    case Number::kBrain:
      return with<kWhat, Number::kBrain, uint16_t>(form);
    case Number::kHalf2:
      return with<kWhat, Number::kHalf2, uint32_t>(form);
    case Number::kBrain2:
      return with<kWhat, Number::kBrain2, uint32_t>(form);
    default:
      return nullptr;
  }
}

template <Atomic kWhat>
Instruction::Execute logic(const AtomicForm& form) {
  if (form.number != Number::kBits) return nullptr;
  if (form.size == 4) return with<kWhat, Number::kBits, uint32_t>(form);
  if (form.size == 8) return with<kWhat, Number::kBits, uint64_t>(form);
  return nullptr;
}

}  // namespace

Instruction::Execute atomic_execute(const AtomicForm& form) {
  switch (form.what) {
    case Atomic::kAdd:
      if (form.number == Number::kFloat)
        return form.size == 4 ? with<Atomic::kAdd, Number::kFloat, uint32_t>(form)
                              : with<Atomic::kAdd, Number::kFloat, uint64_t>(form);
      if (auto found = small<Atomic::kAdd>(form)) return found;
      return integer<Atomic::kAdd>(form);
    case Atomic::kMinimum:
      if (auto found = small<Atomic::kMinimum>(form)) return found;
      return integer<Atomic::kMinimum>(form);
    case Atomic::kMaximum:
      if (auto found = small<Atomic::kMaximum>(form)) return found;
      return integer<Atomic::kMaximum>(form);
    case Atomic::kIncrement:
      return form.number == Number::kUnsigned && form.size == 4
                 ? with<Atomic::kIncrement, Number::kUnsigned, uint32_t>(form)
                 : nullptr;
    case Atomic::kDecrement:
      return form.number == Number::kUnsigned && form.size == 4
                 ? with<Atomic::kDecrement, Number::kUnsigned, uint32_t>(form)
                 : nullptr;
    case Atomic::kAnd:
      return logic<Atomic::kAnd>(form);
    case Atomic::kOr:
      return logic<Atomic::kOr>(form);
    case Atomic::kXor:
      return logic<Atomic::kXor>(form);
    case Atomic::kExchange:
      if (form.number == Number::kBits && form.size == 16)
        return with<Atomic::kExchange, Number::kBits, u128>(form);
      return logic<Atomic::kExchange>(form);
    case Atomic::kCompare:
      if (form.number == Number::kBits && form.size == 2)
        return with<Atomic::kCompare, Number::kBits, uint16_t>(form);
      if (form.number == Number::kBits && form.size == 16)
        return with<Atomic::kCompare, Number::kBits, u128>(form);
      return logic<Atomic::kCompare>(form);
  }
  return nullptr;
}

}  // namespace cropdl::engine
