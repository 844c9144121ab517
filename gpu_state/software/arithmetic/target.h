// Included first by every file of arithmetic/. The functions here are pure, total (every bit pattern has a
// result, nothing traps), give the same results on every processor, and are small enough that a loop over 32
// lanes becomes vector code. They are compiled for several instruction sets, each time in a namespace of its
// own (CROPDL_TARGET), so that the linker cannot mix the copies.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#ifndef CROPDL_TARGET
#define CROPDL_TARGET baseline
#endif

namespace cropdl::arithmetic {
inline namespace CROPDL_TARGET {

using u8 = uint8_t;
using u16 = uint16_t;
using u32 = uint32_t;
using u64 = uint64_t;
using s8 = int8_t;
using s16 = int16_t;
using s32 = int32_t;
using s64 = int64_t;
__extension__ using u128 = unsigned __int128;
__extension__ using s128 = __int128;

template <class To, class From>
[[gnu::always_inline]] constexpr To bits(From from) {
  static_assert(sizeof(To) == sizeof(From));
  return __builtin_bit_cast(To, from);
}

template <class T>
constexpr int kWidth = 8 * int(sizeof(T));
template <class T>
constexpr bool kSigned = T(-1) < T(0);

template <class T>
struct Types;
template <>
struct Types<u8> {
  using Signed = s8;
  using Unsigned = u8;
  using Wide = u16;
};
template <>
struct Types<s8> {
  using Signed = s8;
  using Unsigned = u8;
  using Wide = s16;
};
template <>
struct Types<u16> {
  using Signed = s16;
  using Unsigned = u16;
  using Wide = u32;
};
template <>
struct Types<s16> {
  using Signed = s16;
  using Unsigned = u16;
  using Wide = s32;
};
template <>
struct Types<u32> {
  using Signed = s32;
  using Unsigned = u32;
  using Wide = u64;
};
template <>
struct Types<s32> {
  using Signed = s32;
  using Unsigned = u32;
  using Wide = s64;
};
template <>
struct Types<u64> {
  using Signed = s64;
  using Unsigned = u64;
  using Wide = u128;
};
template <>
struct Types<s64> {
  using Signed = s64;
  using Unsigned = u64;
  using Wide = s128;
};
template <class T>
using Unsigned = typename Types<T>::Unsigned;
template <class T>
using Signed = typename Types<T>::Signed;
template <class T>
using Wide = typename Types<T>::Wide;

template <class T>
constexpr T kMost = kSigned<T> ? T(Unsigned<T>(~Unsigned<T>(0)) >> 1) : T(~Unsigned<T>(0));
template <class T>
constexpr T kLeast = kSigned<T> ? T(Unsigned<T>(1) << (kWidth<T> - 1)) : T(0);

// Results of instructions that write two registers, such as the carry between words.
template <class A, class B>
struct Both {
  A first;
  B second;
};
template <class T>
struct Four {
  T a, b, c, d;
};
struct Carry {
  bool is_set;
};

}  // namespace CROPDL_TARGET
}  // namespace cropdl::arithmetic
