// Matrices of a warp. The mapping of wmma fragment elements to lanes is unspecified in PTX, so it is chosen
// here: element t, counted row by row, is in lane t % 32; if a fragment has more room than the matrix has
// elements, they repeat (PTX ISA, "wmma": "the mapping … is unspecified"). ldmatrix's mapping is specified,
// and implemented as such.
#include "gpu_state/software/engine/matrix.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace cropdl::engine {

namespace {

using Element = MatrixUse::Element;

float half_value(uint16_t bits) {
  uint32_t exponent = bits >> 10 & 31, fraction = bits & 0x3ff;
  float magnitude;
  if (exponent == 0) {
    magnitude = std::ldexp(static_cast<float>(fraction), -24);
  } else {
    uint32_t all = (exponent == 31 ? 0x7f800000u : (exponent + 112) << 23) | fraction << 13;
    std::memcpy(&magnitude, &all, 4);
  }
  return bits & 0x8000 ? -magnitude : magnitude;
}
// Rounds a double to the nearest half, once.
uint16_t half_bits(double value) {
  if (std::isnan(value)) return 0x7fff;
  uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  double magnitude = std::fabs(value);
  if (magnitude >= 65520) return sign | 0x7c00;
  int exponent = 0;
  std::frexp(magnitude, &exponent);                      // magnitude < 2^exponent
  int step = exponent - 11 < -24 ? -24 : exponent - 11;  // of the last bit
  double counted = std::nearbyint(std::ldexp(magnitude, -step));
  magnitude = std::ldexp(counted, step);
  if (magnitude < 0x1p-14)
    return static_cast<uint16_t>(sign | static_cast<uint16_t>(std::ldexp(magnitude, 24)));
  std::frexp(magnitude, &exponent);
  auto fraction = static_cast<uint16_t>(std::ldexp(magnitude, 11 - exponent));  // 1024 … 2047
  return static_cast<uint16_t>(sign | ((exponent + 14) << 10) | (fraction & 0x3ff));
}

double value_of(uint64_t bits, Element element) {
  switch (element) {
    case Element::kHalf:
      return half_value(static_cast<uint16_t>(bits));
    case Element::kBrain:
    case Element::kTensorFloat:
    case Element::kFloat: {
      auto all = static_cast<uint32_t>(bits);
      if (element == Element::kBrain) all <<= 16;
      if (element == Element::kTensorFloat) all &= 0xffffe000u;
      float value;
      std::memcpy(&value, &all, 4);
      return value;
    }
    case Element::kDouble: {
      double value;
      std::memcpy(&value, &bits, 8);
      return value;
    }
    case Element::kSigned8:
      return static_cast<int8_t>(bits);
    case Element::kUnsigned8:
      return static_cast<uint8_t>(bits);
    case Element::kSigned32:
      return static_cast<int32_t>(bits);
  }
  return 0;
}

class Fragment {
 public:
  Fragment(Warp& warp, const Place* places, uint32_t count, Element element)
      : warp_(warp),
        places_(places),
        size_(bytes_of(element)),
        register_(size_ == 8 ? 8 : 4),
        each_(register_ / size_),
        slots_(count * each_) {}
  uint32_t slots() const { return slots_; }
  uint64_t get(uint32_t lane, uint32_t slot) const {
    const std::byte* at = where(lane, slot);
    uint64_t bits = 0;
    std::memcpy(&bits, at, size_);
    return bits;
  }
  void set(uint32_t lane, uint32_t slot, uint64_t bits) { std::memcpy(where(lane, slot), &bits, size_); }

 private:
  std::byte* where(uint32_t lane, uint32_t slot) const {
    return reinterpret_cast<std::byte*>(warp_.lanes<uint32_t>(places_[slot / each_])) +
           size_t{lane} * register_ + size_t{slot} % each_ * size_;
  }
  Warp& warp_;
  const Place* places_;
  uint32_t size_, register_, each_, slots_;
};

uint64_t address_of(WarpRun& warp, const MatrixUse& use, Place place, uint32_t lane) {
  auto offset = static_cast<uint64_t>(use.offset);
  if (use.no_base) return offset;
  if (use.narrow) return uint32_t(warp.lanes<uint32_t>(place)[lane] + uint32_t(offset));
  return warp.lanes<uint64_t>(place)[lane] + offset;
}

uint64_t read_bytes(const std::byte* from, uint32_t size) {
  uint64_t bits = 0;
  if (size == 1) __builtin_memcpy(&bits, from, 1);
  if (size == 2) __builtin_memcpy(&bits, from, 2);
  if (size == 4) __builtin_memcpy(&bits, from, 4);
  if (size == 8) __builtin_memcpy(&bits, from, 8);
  return bits;
}
void write_bytes(std::byte* to, uint64_t bits, uint32_t size) {
  if (size == 1) __builtin_memcpy(to, &bits, 1);
  if (size == 2) __builtin_memcpy(to, &bits, 2);
  if (size == 4) __builtin_memcpy(to, &bits, 4);
  if (size == 8) __builtin_memcpy(to, &bits, 8);
}

// ldmatrix, stmatrix: row r of matrix i is at the address in lane 8 i + r; its elements 2 c and 2 c + 1 are
// in lane 4 r + c.
void rows(WarpRun& warp, const Instruction& in, const MatrixUse& use) {
  const bool store = use.what == MatrixUse::What::kStoreRows;
  std::byte* row[kLanes];
  for (uint32_t i = 0; i < use.count_a * 8; ++i) {
    const uint64_t address = address_of(warp, use, in.many[use.count_a], i);
    if (static_cast<Area>(use.area) == Area::kGeneric &&
        address >> kWindowShift != static_cast<uint64_t>(Window::kShared))
      return warp.fault(i, CUDA_ERROR_ILLEGAL_ADDRESS, address, "the matrix lies in shared memory, not at");
    row[i] = resolve(warp, i, static_cast<Area>(use.area), address, 16, store);
    if (!row[i]) return;
  }
  for (uint32_t i = 0; i < use.count_a; ++i) {
    uint32_t* registers = warp.lanes<uint32_t>(in.many[i]);
    uint32_t made[kLanes];
    for (uint32_t l = 0; l < kLanes; ++l) {
      for (uint32_t half = 0; half < 2; ++half) {
        uint32_t r = l / 4, c = l % 4 * 2 + half;
        if (use.transposed) std::swap(r, c);
        std::byte* at = row[i * 8 + r] + size_t{c} * 2;
        if (store)
          write_bytes(at, registers[l] >> (16 * half), 2);
        else
          made[l] = (half ? made[l] : 0) | static_cast<uint32_t>(read_bytes(at, 2)) << (16 * half);
      }
    }
    if (!store)
      for (uint32_t l = 0; l < kLanes; ++l) registers[l] = made[l];
  }
}

void fragment(WarpRun& warp, const Instruction& in, const MatrixUse& use) {
  const bool store = use.what == MatrixUse::What::kStore;
  const uint32_t size = bytes_of(use.a), elements = use.rows * use.columns;
  const uint64_t base = address_of(warp, use, in.many[use.count_a], 0);
  uint64_t stride = use.column_major ? use.rows : use.columns;
  if (use.has_stride) stride = warp.lanes<uint32_t>(in.many[use.count_a + 1])[0];
  for (uint32_t l = 1; l < kLanes; ++l)
    if (address_of(warp, use, in.many[use.count_a], l) != base ||
        (use.has_stride && warp.lanes<uint32_t>(in.many[use.count_a + 1])[l] != stride))
      return warp.fault(l, CUDA_ERROR_ILLEGAL_INSTRUCTION, base,
                        "the warp's threads name other matrices than the one at");
  // "mptr must be a 256-bit aligned pointer", "ldm … must be a multiple of 8 for __half … or 4 for float"
  // (CUDA C++ Programming Guide, "Warp Matrix Functions"); smaller fragments are aligned to their size (PTX
  // ISA, "Matrix Storage for WMMA").
  const uint64_t whole = uint64_t{use.count_a} * (size == 8 ? 8 : 4);
  if (base % std::min<uint64_t>(whole, 32))
    return warp.fault(0, CUDA_ERROR_MISALIGNED_ADDRESS, base, "misaligned matrix at");
  if (stride * size % std::min<uint64_t>(whole, 16))
    return warp.fault(0, CUDA_ERROR_MISALIGNED_ADDRESS, base, "misaligned rows of the matrix at");
  Fragment registers(warp, in.many, use.count_a, use.a);
  for (uint32_t slot = 0; slot < registers.slots(); ++slot)
    for (uint32_t l = 0; l < kLanes; ++l) {
      uint32_t t = (slot * kLanes + l) % elements, r = t / use.columns, c = t % use.columns;
      if (store && slot * kLanes + l >= elements) continue;
      uint64_t at = base + (use.column_major ? c * stride + r : r * stride + c) * size;
      std::byte* where = resolve(warp, l, static_cast<Area>(use.area), at, size, store);
      if (!where) return;
      if (store)
        write_bytes(where, registers.get(l, slot), size);
      else
        registers.set(l, slot, read_bytes(where, size));
    }
}

// Products are exact in double precision; they are added in that precision in order, then rounded once: at
// least as exact as a real device, whose rounding is unspecified.
void multiply(WarpRun& warp, const Instruction& in, const MatrixUse& use) {
  const Place *d = in.many, *a = d + use.count_d, *b = a + use.count_a, *c = b + use.count_b;
  Fragment fa(warp, a, use.count_a, use.a), fb(warp, b, use.count_b, use.b), fc(warp, c, use.count_c, use.c),
      fd(warp, d, use.count_d, use.d);
  static thread_local double va[32 * 32], vb[32 * 32];
  uint64_t results[32 * 32];
  auto take = [](const Fragment& from, Element element, uint32_t count, double* to) {
    for (uint32_t t = 0; t < count; ++t) to[t] = value_of(from.get(t % kLanes, t / kLanes), element);
  };
  take(fa, use.a, use.m * use.k, va);
  take(fb, use.b, use.k * use.n, vb);
  for (uint32_t t = 0; t < use.m * use.n; ++t) {
    uint32_t r = t / use.n, column = t % use.n;
    double sum = value_of(fc.get(t % kLanes, t / kLanes), use.c);
    for (uint32_t k = 0; k < use.k; ++k) {
      if (use.d == Element::kDouble)
        sum = std::fma(va[r * use.k + k], vb[k * use.n + column], sum);
      else
        sum += va[r * use.k + k] * vb[k * use.n + column];
    }
    uint64_t bits = 0;
    switch (use.d) {
      case Element::kHalf:
        bits = half_bits(sum);
        break;
      case Element::kDouble:
        std::memcpy(&bits, &sum, 8);
        break;
      case Element::kSigned32: {
        auto whole = static_cast<int64_t>(sum);
        if (use.saturate) whole = whole > INT32_MAX ? INT32_MAX : whole < INT32_MIN ? INT32_MIN : whole;
        bits = static_cast<uint32_t>(whole);
        break;
      }
      default: {
        auto narrow = static_cast<float>(sum);
        uint32_t all;
        std::memcpy(&all, &narrow, 4);
        bits = std::isnan(narrow) ? 0x7fffffff : all;
      }
    }
    results[t] = bits;
  }
  for (uint32_t slot = 0; slot < fd.slots(); ++slot)
    for (uint32_t l = 0; l < kLanes; ++l) fd.set(l, slot, results[(slot * kLanes + l) % (use.m * use.n)]);
}

}  // namespace

uint32_t bytes_of(Element element) {
  switch (element) {
    case Element::kHalf:
    case Element::kBrain:
      return 2;
    case Element::kDouble:
      return 8;
    case Element::kSigned8:
    case Element::kUnsigned8:
      return 1;
    default:
      return 4;
  }
}

void matrix_execute(Warp& base, const Instruction& in, uint32_t) {
  WarpRun& warp = static_cast<WarpRun&>(base);
  const MatrixUse& use = warp.current->routine->matrices[in.extra & 0xffffff];
  switch (use.what) {
    case MatrixUse::What::kLoadRows:
    case MatrixUse::What::kStoreRows:
      return rows(warp, in, use);
    case MatrixUse::What::kLoad:
    case MatrixUse::What::kStore:
      return fragment(warp, in, use);
    case MatrixUse::What::kMultiply:
      return multiply(warp, in, use);
  }
}

}  // namespace cropdl::engine
