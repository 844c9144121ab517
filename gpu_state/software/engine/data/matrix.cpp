// Rows of mma.sync (wmma, which includes loads, is in the engine). PTX ISA 9.0, "Warp Level Matrix
// Multiply-Accumulate Instructions". All lanes that have not exited take part; the lowering makes them meet.
// Products are exact. Sums of floats are computed in f64 in the order of K, C first, and rounded once to D's
// type (PTX requires at least D's precision and leaves the order open); sums of f64 use fma. Operands: D, A,
// B, C, register by register.
#include <memory>

#include "gpu_state/software/arithmetic/fragment.h"
#include "gpu_state/software/arithmetic/narrow.h"
#include "gpu_state/software/engine/data/matrix.h"

namespace cropdl::engine {
namespace {

// Element j of a register's bits.
struct OfF16 {
  using Value = double;
  static constexpr int packed = 2;
  static double get(u64 bits, int j) { return widen<F16>(u16(bits >> (16 * j))); }
};
struct OfBF16 {
  using Value = double;
  static constexpr int packed = 2;
  static double get(u64 bits, int j) { return widen<BF16>(u16(bits >> (16 * j))); }
};
struct OfTF32 {
  using Value = double;
  static constexpr int packed = 1;
  static double get(u64 a, int) { return bits<float>(u32(a) & 0xffffe000); }
};
struct OfF64 {
  using Value = double;
  static constexpr int packed = 1;
  static double get(u64 a, int) { return bits<double>(a); }
};
template <class F>
struct OfByteFloat {
  using Value = double;
  static constexpr int packed = 4;
  static double get(u64 bits, int j) { return widen<F16>(half_from_byte<F>(u32(bits >> (8 * j)) & 255)); }
};
template <int width, bool is_signed>
struct OfInteger {
  using Value = s64;
  static constexpr int packed = 32 / width;
  static s64 get(u64 bits, int j) {
    const s64 low = s64(bits >> (width * j)) & ((1 << width) - 1);
    return is_signed && (low >> (width - 1)) ? low - (1 << width) : low;
  }
};
struct OfBit {
  using Value = s64;
  static constexpr int packed = 32;
  static s64 get(u64 bits, int j) { return s64(bits >> j) & 1; }
};

// C and D: `packed` elements per register.
struct SumF32 {
  using Value = double;
  static constexpr int packed = 1;
  static double get(u64 a, int) { return bits<float>(u32(a)); }
  static u64 put(double value) { return narrow<F32, Rounding::kNearest>(value); }
};
struct SumF16 : OfF16 {
  static u64 put(double value) { return narrow<F16, Rounding::kNearest>(value); }
};
struct SumF64 : OfF64 {
  static u64 put(double value) { return bits<u64>(value != value ? bits<double>(kNaN64) : value); }
};
template <bool saturate>
struct SumS32 {
  using Value = s64;
  static constexpr int packed = 1;
  static s64 get(u64 a, int) { return s32(u32(a)); }
  static u64 put(s64 value) { return u32(saturate ? clamp<s32>(value) : s32(u32(u64(value)))); }
};

enum class Product { kTimes, kFused, kXor, kAnd };
template <Product product, class V>
[[gnu::always_inline]] inline V accumulated(V sum, V a, V b) {
  if constexpr (product == Product::kFused)
    return fused(a, b, sum);
  else if constexpr (product == Product::kXor)
    return sum + (a ^ b);
  else if constexpr (product == Product::kAnd)
    return sum + (a & b);
  else
    return sum + a * b;
}

template <class A, class B, class C, class D, int M, int N, int K, Product product>
struct Multiply {
  static constexpr int registers_a = M * K / 32 / A::packed;
  static constexpr int registers_b = K * N / 32 / B::packed;
  static constexpr int registers_c = M * N / 32 / C::packed;
  static constexpr int registers_d = M * N / 32 / D::packed;
  static constexpr int count = registers_d + registers_a + registers_b + registers_c;
  static constexpr bool is_wide = std::is_same_v<A, OfF64>;
  using V = typename C::Value;

  struct Matrices {
    V a[M][K], b[K][N], c[M][N];
  };

  static u64 get(Warp& warp, Place at, int lane) {
    const std::byte* from = place(warp, at);
    return is_wide ? reinterpret_cast<const u64*>(from)[lane] : reinterpret_cast<const u32*>(from)[lane];
  }
  static void execute(Warp& warp, const Instruction& instruction, u32 active) {
    const Place* places = count > Instruction::kOperands ? instruction.many : instruction.operands;
    const Place *d = places, *a = d + registers_d, *b = a + registers_a, *c = b + registers_b;
    Matrices m;
    for (int lane = 0; lane < kLanes; ++lane) {
      for (int r = 0; r < registers_a; ++r)
        for (int j = 0; j < A::packed; ++j) {
          const Position p = fragment_a(M, A::packed, lane, r, j);
          m.a[p.row][p.column] = A::get(get(warp, a[r], lane), j);
        }
      for (int r = 0; r < registers_b; ++r)
        for (int j = 0; j < B::packed; ++j) {
          const Position p = fragment_b(B::packed, lane, r, j);
          m.b[p.row][p.column] = B::get(get(warp, b[r], lane), j);
        }
      for (int i = 0; i < registers_c * C::packed; ++i) {
        const Position p = fragment_c(lane, i);
        m.c[p.row][p.column] = C::get(get(warp, c[i / C::packed], lane), i % C::packed);
      }
    }
    for (int row = 0; row < M; ++row)
      for (int k = 0; k < K; ++k)
        for (int column = 0; column < N; ++column)
          m.c[row][column] = accumulated<product>(m.c[row][column], m.a[row][k], m.b[k][column]);
    for (int lane = 0; lane < kLanes; ++lane) {
      if (!(active >> lane & 1)) continue;
      for (int r = 0; r < registers_d; ++r) {
        u64 value = 0;
        for (int j = 0; j < D::packed; ++j) {
          const Position p = fragment_c(lane, r * D::packed + j);
          value |= D::put(m.c[p.row][p.column]) << (32 / D::packed * j % 64);
        }
        if (is_wide)
          reinterpret_cast<u64*>(place(warp, d[r]))[lane] = value;
        else
          reinterpret_cast<u32*>(place(warp, d[r]))[lane] = u32(value);
      }
    }
  }
  static constexpr MatrixEntry entry(const char* opcode) {
    const Kind input = is_wide ? Kind::k64 : Kind::k32;
    return {opcode, input, registers_d, registers_a + registers_b + registers_c, execute};
  }
};

template <class A, class B, class C, class D, int M, int N, int K, Product product = Product::kTimes>
constexpr MatrixEntry mma(const char* opcode) {
  return Multiply<A, B, C, D, M, N, K, product>::entry(opcode);
}

#define MMA "mma.sync.aligned."
#define HALVES(K, k)                                                                         \
  mma<OfF16, OfF16, SumF32, SumF32, 16, 8, K>(MMA "m16n8" k ".row.col.f32.f16.f16.f32"),     \
      mma<OfF16, OfF16, SumF16, SumF16, 16, 8, K>(MMA "m16n8" k ".row.col.f16.f16.f16.f16"), \
      mma<OfBF16, OfBF16, SumF32, SumF32, 16, 8, K>(MMA "m16n8" k ".row.col.f32.bf16.bf16.f32")
#define BYTE_FLOATS(A, B, types, K, k)                                                                       \
  mma<OfByteFloat<A>, OfByteFloat<B>, SumF32, SumF32, 16, 8, K>(MMA "m16n8" k ".row.col.f32." types ".f32"), \
      mma<OfByteFloat<A>, OfByteFloat<B>, SumF16, SumF16, 16, 8, K>(MMA "m16n8" k ".row.col.f16." types      \
                                                                        ".f16")
#define EACH_BYTE_FLOAT(K, k)                                                             \
  BYTE_FLOATS(E4M3, E4M3, "e4m3.e4m3", K, k), BYTE_FLOATS(E4M3, E5M2, "e4m3.e5m2", K, k), \
      BYTE_FLOATS(E5M2, E4M3, "e5m2.e4m3", K, k), BYTE_FLOATS(E5M2, E5M2, "e5m2.e5m2", K, k)
#define INTEGERS(width, a, b, types, M, N, K, shape)                                      \
  mma<OfInteger<width, a>, OfInteger<width, b>, SumS32<false>, SumS32<false>, M, N, K>(   \
      MMA shape ".row.col.s32." types ".s32"),                                            \
      mma<OfInteger<width, a>, OfInteger<width, b>, SumS32<true>, SumS32<true>, M, N, K>( \
          MMA shape ".row.col.satfinite.s32." types ".s32")
#define EACH_INTEGER(width, w, M, N, K, shape)                    \
  INTEGERS(width, false, false, "u" w ".u" w, M, N, K, shape),    \
      INTEGERS(width, false, true, "u" w ".s" w, M, N, K, shape), \
      INTEGERS(width, true, false, "s" w ".u" w, M, N, K, shape), \
      INTEGERS(width, true, true, "s" w ".s" w, M, N, K, shape)
#define BITS(M, N, K, shape)                                                   \
  mma<OfBit, OfBit, SumS32<false>, SumS32<false>, M, N, K, Product::kXor>(     \
      MMA shape ".row.col.s32.b1.b1.s32.xor.popc"),                            \
      mma<OfBit, OfBit, SumS32<false>, SumS32<false>, M, N, K, Product::kAnd>( \
          MMA shape ".row.col.s32.b1.b1.s32.and.popc")
#define DOUBLES(M, K, shape) \
  mma<OfF64, OfF64, SumF64, SumF64, M, 8, K, Product::kFused>(MMA shape ".row.col{|.rn}.f64.f64.f64.f64")

constexpr MatrixEntry kEntries[] = {
    HALVES(8, "k8"),
    HALVES(16, "k16"),
    mma<OfTF32, OfTF32, SumF32, SumF32, 16, 8, 4>(MMA "m16n8k4.row.col.f32.tf32.tf32.f32"),
    mma<OfTF32, OfTF32, SumF32, SumF32, 16, 8, 8>(MMA "m16n8k8.row.col.f32.tf32.tf32.f32"),
    EACH_BYTE_FLOAT(16, "k16"),
    EACH_BYTE_FLOAT(32, "k32"),
    DOUBLES(8, 4, "m8n8k4"),
    DOUBLES(16, 4, "m16n8k4"),
    DOUBLES(16, 8, "m16n8k8"),
    DOUBLES(16, 16, "m16n8k16"),
    EACH_INTEGER(8, "8", 8, 8, 16, "m8n8k16"),
    EACH_INTEGER(8, "8", 16, 8, 16, "m16n8k16"),
    EACH_INTEGER(8, "8", 16, 8, 32, "m16n8k32"),
    EACH_INTEGER(4, "4", 8, 8, 32, "m8n8k32"),
    EACH_INTEGER(4, "4", 16, 8, 32, "m16n8k32"),
    EACH_INTEGER(4, "4", 16, 8, 64, "m16n8k64"),
    BITS(8, 8, 128, "m8n8k128"),
    BITS(16, 8, 128, "m16n8k128"),
    BITS(16, 8, 256, "m16n8k256"),
};

}  // namespace

MatrixEntries matrix() { return {kEntries, sizeof kEntries / sizeof *kEntries}; }

}  // namespace cropdl::engine
