// The form of a row of data processing: a line of a constant table, and templates that make a function over
// 32 lanes of a scalar function. The tables are compiled for several instruction sets (CROPDL_TARGET), so all
// templates here have internal linkage, and a table is plain data.
#pragma once

#include <emmintrin.h>

#include <utility>

#include "gpu_state/software/arithmetic/target.h"
#include "gpu_state/software/engine/instruction.h"
#include "gpu_state/software/engine/warp.h"

namespace cropdl::engine {

// In the opcode, `$` stands for `first` and `#` for `second`. {a|b|} makes one row for each alternative.
struct Entry {
  const char* opcode;
  const char *first, *second;
  Kind destinations[4], sources[8];
  Instruction::Execute execute;
};

// The entries of one file for one instruction set.
struct Entries {
  const char* what;  // as Row::what
  const Entry* first;
  size_t count;
};

namespace {

using namespace cropdl::arithmetic;

// The kind of register of a C++ type. Source and Results read and write lanes of it.
template <class T>
struct Held {
  static constexpr Kind kind = sizeof(T) == 2   ? Kind::k16
                               : sizeof(T) == 4 ? Kind::k32
                               : sizeof(T) == 8 ? Kind::k64
                                                : Kind::k128;
};
template <>
struct Held<float> {
  static constexpr Kind kind = Kind::kF32;
};
template <>
struct Held<double> {
  static constexpr Kind kind = Kind::kF64;
};
template <>
struct Held<bool> {
  static constexpr Kind kind = Kind::kPred;
};
template <>
struct Held<Carry> {
  static constexpr Kind kind = Kind::kCarry;
};

[[gnu::always_inline]] inline std::byte* place(Warp& warp, Place at) {
  return (at >= 0 ? warp.frame : warp.constants) + at;
}

template <class T>
struct Source {
  const T* values;
  [[gnu::always_inline]] Source(Warp& warp, const Instruction& instruction, int operand)
      : values(reinterpret_cast<const T*>(place(warp, instruction.operands[operand]))) {}
  [[gnu::always_inline]] T operator[](int lane) const { return values[lane]; }
};
template <>
struct Source<bool> {
  u32 mask;
  [[gnu::always_inline]] Source(Warp& warp, const Instruction& instruction, int operand)
      : mask(*reinterpret_cast<const u32*>(place(warp, instruction.operands[operand])) ^
             (0u - (instruction.flags >> operand & 1))) {}
  [[gnu::always_inline]] bool operator[](int lane) const { return mask >> lane & 1; }
};
template <>
struct Source<Carry> : Source<bool> {
  using Source<bool>::Source;
  [[gnu::always_inline]] Carry operator[](int lane) const { return {bool(mask >> lane & 1)}; }
};

// Writes only the active lanes.
template <class T>
[[gnu::noinline]] void store_some(T* to, const T* values, u32 active) {
#pragma GCC ivdep
  for (int lane = 0; lane < kLanes; ++lane) to[lane] = active >> lane & 1 ? values[lane] : to[lane];
}

// 32 results for a destination.
template <class T>
struct Results {
  alignas(64) T values[kLanes];
  [[gnu::always_inline]] void set(int lane, T value) { values[lane] = value; }
  [[gnu::always_inline]] void store(Warp& warp, const Instruction& instruction, int operand,
                                    u32 active) const {
    T* to = reinterpret_cast<T*>(place(warp, instruction.operands[operand]));
    if (active == kAllLanes) {
#pragma GCC ivdep
      for (int lane = 0; lane < kLanes; ++lane) to[lane] = values[lane];
    } else {
      store_some(to, values, active);
    }
  }
};
// Predicates: each lane is a byte of all or no bits; movemask makes the mask.
template <>
struct Results<bool> {
  alignas(64) s8 values[kLanes];
  [[gnu::always_inline]] void set(int lane, bool value) { values[lane] = value ? -1 : 0; }
  [[gnu::always_inline]] u32 mask() const {
    const auto* halves = reinterpret_cast<const __m128i*>(values);
    return u32(_mm_movemask_epi8(halves[0])) | u32(_mm_movemask_epi8(halves[1])) << 16;
  }
  [[gnu::always_inline]] void store(Warp& warp, const Instruction& instruction, int operand,
                                    u32 active) const {
    u32& to = *reinterpret_cast<u32*>(place(warp, instruction.operands[operand]));
    to = (to & ~active) | (mask() & active);
  }
};
template <>
struct Results<Carry> : Results<bool> {
  [[gnu::always_inline]] void set(int lane, Carry value) { Results<bool>::set(lane, value.is_set); }
};

template <class R>
struct Destinations {
  static constexpr int count = 1;
  static constexpr bool is_value = Held<R>::kind != Kind::kPred && Held<R>::kind != Kind::kCarry;
  static constexpr Kind kinds[4] = {Held<R>::kind};
  Results<R> results;
  [[gnu::always_inline]] void set(int lane, R value) { results.set(lane, value); }
  [[gnu::always_inline]] void store(Warp& warp, const Instruction& instruction, u32 active) const {
    results.store(warp, instruction, 0, active);
  }
};
template <class A, class B>
struct Destinations<Both<A, B>> {
  static constexpr int count = 2;
  static constexpr bool is_value = false;
  static constexpr Kind kinds[4] = {Held<A>::kind, Held<B>::kind};
  Results<A> first;
  Results<B> second;
  [[gnu::always_inline]] void set(int lane, Both<A, B> value) {
    first.set(lane, value.first);
    second.set(lane, value.second);
  }
  [[gnu::always_inline]] void store(Warp& warp, const Instruction& instruction, u32 active) const {
    first.store(warp, instruction, 0, active);
    second.store(warp, instruction, 1, active);
  }
};
template <class T>
struct Destinations<Four<T>> {
  static constexpr int count = 4;
  static constexpr bool is_value = false;
  static constexpr Kind kinds[4] = {Held<T>::kind, Held<T>::kind, Held<T>::kind, Held<T>::kind};
  Results<T> a, b, c, d;
  [[gnu::always_inline]] void set(int lane, Four<T> value) {
    a.set(lane, value.a), b.set(lane, value.b), c.set(lane, value.c), d.set(lane, value.d);
  }
  [[gnu::always_inline]] void store(Warp& warp, const Instruction& instruction, u32 active) const {
    a.store(warp, instruction, 0, active), b.store(warp, instruction, 1, active);
    c.store(warp, instruction, 2, active), d.store(warp, instruction, 3, active);
  }
};

template <auto function, class R, class Indices, class... A>
struct Lanes;
template <auto function, class R, size_t... index, class... A>
struct Lanes<function, R, std::index_sequence<index...>, A...> {
  using D = Destinations<R>;

  // Computes all lanes, vectorised; the functions are total.
  static void vector(Warp& warp, const Instruction& instruction, u32 active) {
    over(warp, instruction, active, Source<A>(warp, instruction, D::count + int(index))...);
  }
  // Computes only active lanes, one by one: for long functions.
  static void each(Warp& warp, const Instruction& instruction, u32 active) {
    one_by_one(warp, instruction, active, Source<A>(warp, instruction, D::count + int(index))...);
  }
  static constexpr Entry entry(const char* opcode, const char* first, const char* second, bool is_long) {
    Entry result{opcode, first, second, {}, {Held<A>::kind...}, is_long ? each : vector};
    for (int i = 0; i < 4; ++i) result.destinations[i] = D::kinds[i];
    return result;
  }

 private:
  [[gnu::always_inline]] static void over(Warp& warp, const Instruction& instruction, u32 active,
                                          Source<A>... source) {
    if constexpr (D::is_value) {
      if (active == kAllLanes) [[likely]] {
        R* to = reinterpret_cast<R*>(place(warp, instruction.operands[0]));
#pragma GCC ivdep
        for (int lane = 0; lane < kLanes; ++lane) to[lane] = function(source[lane]...);
        return;
      }
    }
    D destinations;
#pragma GCC ivdep
    for (int lane = 0; lane < kLanes; ++lane) destinations.set(lane, function(source[lane]...));
    destinations.store(warp, instruction, active);
  }
  static void one_by_one(Warp& warp, const Instruction& instruction, u32 active, Source<A>... source) {
    D destinations;
    for (int lane = 0; lane < kLanes; ++lane)
      destinations.set(lane, active >> lane & 1 ? function(source[lane]...) : R{});
    destinations.store(warp, instruction, active);
  }
};

template <auto function, class R, class... A>
constexpr Entry entry_of(R (*)(A...), const char* opcode, const char* first, const char* second,
                         bool is_long) {
  return Lanes<function, R, std::index_sequence_for<A...>, A...>::entry(opcode, first, second, is_long);
}

// A row for a scalar function. The function's type determines the operands.
template <auto function>
constexpr Entry row(const char* opcode, const char* first = "", const char* second = "") {
  return entry_of<function>(function, opcode, first, second, false);
}
// The same for functions too long for vector code.
template <auto function>
constexpr Entry long_row(const char* opcode, const char* first = "", const char* second = "") {
  return entry_of<function>(function, opcode, first, second, true);
}

}  // namespace
}  // namespace cropdl::engine
