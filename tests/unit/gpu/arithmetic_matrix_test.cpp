// links: gpu_data
// mma.sync with the fragments that the document draws, written out here as it says them.
#include "gpu_state/software/arithmetic/fragment.h"
#include "rows.h"

namespace {

using namespace cropdl::engine;
using cropdl::arithmetic::Position;

// Registers of 32 or 64 bits, 32 lanes each.
struct Registers {
  std::vector<rows::Lanes> values;
  int bits = 32;
};
std::vector<rows::Lanes> execute(const Row& row, const std::vector<rows::Lanes>& in, int bits,
                                 uint32_t active = 0xffffffff) {
  const size_t count = row.destinations.size() + row.sources.size();
  const size_t stride = 32 * size_t(bits) / 8;
  std::vector<std::byte> frame(count * stride + 64);
  std::vector<Place> places;
  for (size_t i = 0; i < count; ++i) places.push_back(Place(i * stride));
  for (size_t i = 0; i < in.size(); ++i)
    for (int lane = 0; lane < 32; ++lane)
      std::memcpy(&frame[(row.destinations.size() + i) * stride + lane * bits / 8], &in[i][lane], bits / 8);
  Instruction instruction;
  if (count > Instruction::kOperands)
    instruction.many = places.data();
  else
    std::copy(places.begin(), places.end(), instruction.operands);
  Warp warp;
  warp.frame = frame.data();
  row.execute(warp, instruction, active);
  std::vector<rows::Lanes> out(row.destinations.size(), rows::Lanes{});
  for (size_t i = 0; i < out.size(); ++i)
    for (int lane = 0; lane < 32; ++lane)
      std::memcpy(&out[i][lane], &frame[i * stride + lane * bits / 8], bits / 8);
  return out;
}

// A type: how an integer is written in it, and bits per element.
struct Type {
  int bits;
  std::function<uint64_t(int)> encode;
};
uint64_t float_bits(int v) { return std::bit_cast<uint32_t>(float(v)); }
uint64_t half_bits(int v) {
  if (v == 0) return 0;
  const uint64_t f = float_bits(v);
  return (f >> 31 << 15) | ((f >> 13 & 0x3ffff) - (112 << 10)) % 0x8000;
}
uint64_t byte_float(int v) {  // e4m3, of -8 … 8
  if (v == 0) return 0;
  const uint64_t f = float_bits(v);
  return (f >> 31 << 7) | ((f >> 20 & 0x7ff) - (120 << 3)) % 128;
}
const Type kF16{16, half_bits}, kBF16{16, [](int v) { return float_bits(v) >> 16; }}, kTF32{32, float_bits},
    kF32{32, float_bits}, kF64{64, [](int v) { return std::bit_cast<uint64_t>(double(v)); }},
    kInteger8{8, [](int v) { return uint64_t(v & 255); }},
    kInteger4{4, [](int v) { return uint64_t(v & 15); }}, kE4M3{8, byte_float},
    kBit{1, [](int v) { return uint64_t(v & 1); }}, kS32{32, [](int v) { return uint64_t(uint32_t(v)); }};

using Where = std::function<Position(int lane, int i)>;
struct Case {
  std::string opcode;
  int m, n, k;
  const Type *input, *output;
  Where a, b, c;
  int a_elements, b_elements, c_elements;  // of a lane
  int most = 3;
  bool is_xor = false, is_and = false;
};

void try_case(const Case& t) {
  SCOPED_TRACE(t.opcode);
  const Row* row = rows::find(t.opcode);
  ASSERT_TRUE(row);
  std::vector<std::vector<int>> a(t.m, std::vector<int>(t.k)), b(t.k, std::vector<int>(t.n)),
      c(t.m, std::vector<int>(t.n));
  auto& engine = rows::random();
  const auto fill = [&](auto& matrix, int most) {
    for (auto& line : matrix)
      for (int& v : line) v = int(engine() % unsigned(2 * most + 1)) - most;
  };
  fill(a, t.most), fill(b, t.most), fill(c, 5);
  if (t.input == &kBit)
    for (auto* matrix : {&a, &b})
      for (auto& line : *matrix)
        for (int& v : line) v &= 1;
  const int width = t.output == &kF64 ? 64 : 32;
  std::vector<rows::Lanes> in;
  std::vector<int> seen_a(t.m * t.k), seen_b(t.k * t.n), seen_c(t.m * t.n);
  const auto add = [&](const Type& type, const auto& matrix, const Where& where, int elements, int columns,
                       std::vector<int>& seen) {
    const int packed = type.bits >= width ? 1 : width / type.bits;
    for (int r = 0; r < elements / packed; ++r) {
      rows::Lanes lanes{};
      for (int lane = 0; lane < 32; ++lane)
        for (int j = 0; j < packed; ++j) {
          const Position p = where(lane, r * packed + j);
          lanes[lane] |= type.encode(matrix[p.row][p.column]) << (type.bits * j % 64);
          ++seen[p.row * columns + p.column];
        }
      in.push_back(lanes);
    }
  };
  add(*t.input, a, t.a, t.a_elements, t.k, seen_a);
  add(*t.input, b, t.b, t.b_elements, t.n, seen_b);
  add(*t.output, c, t.c, t.c_elements, t.n, seen_c);
  for (auto* seen : {&seen_a, &seen_b, &seen_c})
    for (int times : *seen) EXPECT_GE(times, 1) << "a fragment leaves an element out";
  ASSERT_EQ(in.size(), row->sources.size());
  const auto out = execute(*row, in, width);
  const int packed = t.output->bits >= width ? 1 : width / t.output->bits;
  for (size_t r = 0; r < out.size(); ++r)
    for (int lane = 0; lane < 32; ++lane) {
      uint64_t expected = 0;
      for (int j = 0; j < packed; ++j) {
        const Position p = t.c(lane, int(r) * packed + j);
        int sum = c[p.row][p.column];
        for (int k = 0; k < t.k; ++k)
          sum += t.is_xor ? a[p.row][k] ^ b[k][p.column] : a[p.row][k] * b[k][p.column];
        expected |= t.output->encode(sum) << (t.output->bits * j % 64);
      }
      ASSERT_EQ(out[r][lane], expected) << "register " << r << " lane " << lane;
    }
}

// The document's formulas: groupID = lane / 4, threadID = lane % 4.
Where accumulator() {
  return [](int lane, int i) { return Position{i < 2 ? lane / 4 : lane / 4 + 8, lane % 4 * 2 + (i & 1)}; };
}
TEST(ArithmeticMatrix, FragmentsOfMma) {
  for (const auto& [type, name] : {std::pair{&kF16, "f16"}, {&kBF16, "bf16"}}) {
    const std::string t = std::string(".row.col.f32.") + name + "." + name + ".f32";
    try_case({"mma.sync.aligned.m16n8k8" + t, 16, 8, 8, type, &kF32,
              [](int lane, int i) {
                return Position{i < 2 ? lane / 4 : lane / 4 + 8, lane % 4 * 2 + (i & 1)};
              },
              [](int lane, int i) {
                return Position{lane % 4 * 2 + i, lane / 4};
              },
              accumulator(), 4, 2, 4});
    try_case({"mma.sync.aligned.m16n8k16" + t, 16, 8, 16, type, &kF32,
              [](int lane, int i) {
                return Position{i < 2 || (i >= 4 && i < 6) ? lane / 4 : lane / 4 + 8,
                                i < 4 ? lane % 4 * 2 + (i & 1) : lane % 4 * 2 + (i & 1) + 8};
              },
              [](int lane, int i) {
                return Position{i < 2 ? lane % 4 * 2 + (i & 1) : lane % 4 * 2 + (i & 1) + 8, lane / 4};
              },
              accumulator(), 8, 4, 4});
  }
  try_case({"mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16", 16, 8, 8, &kF16, &kF16,
            [](int lane, int i) {
              return Position{i < 2 ? lane / 4 : lane / 4 + 8, lane % 4 * 2 + (i & 1)};
            },
            [](int lane, int i) {
              return Position{lane % 4 * 2 + i, lane / 4};
            },
            accumulator(), 4, 2, 4});
  try_case({"mma.sync.aligned.m16n8k4.row.col.f32.tf32.tf32.f32", 16, 8, 4, &kTF32, &kF32,
            [](int lane, int i) {
              return Position{i == 0 ? lane / 4 : lane / 4 + 8, lane % 4};
            },
            [](int lane, int) {
              return Position{lane % 4, lane / 4};
            },
            accumulator(), 2, 1, 4});
  try_case({"mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32", 16, 8, 8, &kTF32, &kF32,
            [](int lane, int i) {
              return Position{i == 0 || i == 2 ? lane / 4 : lane / 4 + 8, i < 2 ? lane % 4 : lane % 4 + 4};
            },
            [](int lane, int i) {
              return Position{i == 0 ? lane % 4 : lane % 4 + 4, lane / 4};
            },
            accumulator(), 4, 2, 4});
  try_case({"mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64", 8, 8, 4, &kF64, &kF64,
            [](int lane, int) {
              return Position{lane / 4, lane % 4};
            },
            [](int lane, int) {
              return Position{lane % 4, lane / 4};
            },
            [](int lane, int i) {
              return Position{lane / 4, lane % 4 * 2 + i};
            },
            1, 1, 2});
  try_case({"mma.sync.aligned.m16n8k16.row.col.f64.f64.f64.f64", 16, 8, 16, &kF64, &kF64,
            [](int lane, int i) {
              return Position{i % 2 == 0 ? lane / 4 : lane / 4 + 8, i / 2 * 4 + lane % 4};
            },
            [](int lane, int i) {
              return Position{lane % 4 + i * 4, lane / 4};
            },
            accumulator(), 8, 4, 4});
  const Where byte_a = [](int lane, int i) {
    return Position{i < 4 || (i >= 8 && i < 12) ? lane / 4 : lane / 4 + 8,
                    i < 8 ? lane % 4 * 4 + (i & 3) : lane % 4 * 4 + (i & 3) + 16};
  };
  const Where byte_b = [](int lane, int i) {
    return Position{i < 4 ? lane % 4 * 4 + (i & 3) : lane % 4 * 4 + (i & 3) + 16, lane / 4};
  };
  try_case({"mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32", 16, 8, 32, &kInteger8, &kS32, byte_a, byte_b,
            accumulator(), 16, 8, 4, 127});
  try_case({"mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32", 16, 8, 16, &kInteger8, &kS32, byte_a, byte_b,
            accumulator(), 8, 4, 4, 127});
  try_case({"mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32", 16, 8, 32, &kE4M3, &kF32, byte_a, byte_b,
            accumulator(), 16, 8, 4});
  try_case({"mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32", 8, 8, 16, &kInteger8, &kS32,
            [](int lane, int i) {
              return Position{lane / 4, lane % 4 * 4 + i};
            },
            [](int lane, int i) {
              return Position{lane % 4 * 4 + i, lane / 4};
            },
            [](int lane, int i) {
              return Position{lane / 4, lane % 4 * 2 + i};
            },
            4, 4, 2, 127});
  try_case({"mma.sync.aligned.m16n8k64.row.col.s32.s4.s4.s32", 16, 8, 64, &kInteger4, &kS32,
            [](int lane, int i) {
              return Position{i < 8 || (i >= 16 && i < 24) ? lane / 4 : lane / 4 + 8,
                              i < 16 ? lane % 4 * 8 + (i & 7) : lane % 4 * 8 + (i & 7) + 32};
            },
            [](int lane, int i) {
              return Position{i < 8 ? lane % 4 * 8 + (i & 7) : lane % 4 * 8 + (i & 7) + 32, lane / 4};
            },
            accumulator(), 32, 16, 4, 7});
  const Where bit_a = [](int lane, int i) {
    return Position{i < 32 || (i >= 64 && i < 96) ? lane / 4 : lane / 4 + 8,
                    i < 64 ? lane % 4 * 32 + (i & 31) : lane % 4 * 32 + (i & 31) + 128};
  };
  const Where bit_b = [](int lane, int i) {
    return Position{i < 32 ? lane % 4 * 32 + (i & 31) : lane % 4 * 32 + (i & 31) + 128, lane / 4};
  };
  try_case({"mma.sync.aligned.m16n8k256.row.col.s32.b1.b1.s32.xor.popc", 16, 8, 256, &kBit, &kS32, bit_a,
            bit_b, accumulator(), 128, 64, 4, 1, true});
  try_case({"mma.sync.aligned.m16n8k256.row.col.s32.b1.b1.s32.and.popc", 16, 8, 256, &kBit, &kS32, bit_a,
            bit_b, accumulator(), 128, 64, 4, 1});
}

TEST(ArithmeticMatrix, SaturationAndWrapAround) {
  for (bool saturate : {false, true}) {
    const Row* row = rows::find(std::string("mma.sync.aligned.m16n8k16.row.col.") +
                                (saturate ? "satfinite." : "") + "s32.s8.s8.s32");
    ASSERT_TRUE(row);
    rows::Lanes ones, most;
    ones.fill(0x01010101), most.fill(0x7fffffff);
    const auto out = execute(*row, {ones, ones, ones, most, most, most, most}, 32);
    EXPECT_EQ(out[0][5], saturate ? 0x7fffffffu : 0x7fffffffu + 16);
  }
}

}  // namespace
