// Runs rows of data processing on 32 lanes, as the engine does, and compares them with a reference that
// computes one lane. Values are bits in a u64.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "gpu_state/software/engine/instruction.h"
#include "gpu_state/software/engine/warp.h"

namespace rows {

using namespace cropdl::engine;
using Lanes = std::array<uint64_t, kLanes>;
using Values = std::vector<uint64_t>;

inline int width(Kind kind) {
  switch (kind) {
    case Kind::kPred:
    case Kind::kCarry:
      return 1;
    case Kind::k16:
    case Kind::kF16:
      return 16;
    case Kind::k32:
    case Kind::kF32:
      return 32;
    case Kind::k128:
      return 128;
    default:
      return 64;
  }
}

// A row's operands in a frame of their own: operand i is at i * 512. Lanes of 128 bits are two u64.
struct Frame {
  alignas(64) std::byte bytes[16 * 512] = {};
  static Place at(int operand) { return operand * 512; }

  void set(int operand, Kind kind, const Lanes& values) {
    std::byte* to = bytes + at(operand);
    if (width(kind) == 1) {
      uint32_t mask = 0;
      for (int lane = 0; lane < kLanes; ++lane) mask |= uint32_t(values[lane] & 1) << lane;
      std::memcpy(to, &mask, 4);
    } else {
      for (int lane = 0; lane < kLanes; ++lane)
        std::memcpy(to + lane * (width(kind) / 8), &values[lane], std::min(width(kind) / 8, 8));
    }
  }
  Lanes get(int operand, Kind kind) const {
    Lanes values{};
    const std::byte* from = bytes + at(operand);
    for (int lane = 0; lane < kLanes; ++lane) {
      if (width(kind) == 1) {
        uint32_t mask;
        std::memcpy(&mask, from, 4);
        values[lane] = mask >> lane & 1;
      } else {
        std::memcpy(&values[lane], from + lane * (width(kind) / 8), std::min(width(kind) / 8, 8));
      }
    }
    return values;
  }
};

inline std::vector<Lanes> run(Instruction::Execute execute, const std::vector<Kind>& destinations,
                              const std::vector<Kind>& sources, const std::vector<Lanes>& in,
                              const std::vector<Lanes>& before, uint32_t active, uint32_t flags = 0) {
  auto frame = std::make_unique<Frame>();
  Instruction instruction;
  instruction.execute = execute;
  instruction.flags = flags;
  int operand = 0;
  for (size_t i = 0; i < destinations.size(); ++i, ++operand) {
    instruction.operands[operand] = Frame::at(operand);
    frame->set(operand, destinations[i], before[i]);
  }
  for (size_t i = 0; i < sources.size(); ++i, ++operand) {
    instruction.operands[operand] = Frame::at(operand);
    frame->set(operand, sources[i], in[i]);
  }
  Warp warp;
  warp.frame = frame->bytes;
  execute(warp, instruction, active);
  std::vector<Lanes> out;
  for (size_t i = 0; i < destinations.size(); ++i) out.push_back(frame->get(int(i), destinations[i]));
  return out;
}

// The row of that opcode with the most ordinary operands (the first), or with the given widths of
// destinations then sources.
inline const Row* find(const std::string& opcode, const std::vector<int>& widths = {}) {
  for (const Row& row : data_rows()) {
    if (row.opcode != opcode) continue;
    std::vector<int> its;
    for (Kind kind : row.destinations) its.push_back(width(kind));
    for (Kind kind : row.sources) its.push_back(width(kind));
    if (widths.empty() || widths == its) return &row;
  }
  return nullptr;
}

inline std::mt19937_64& random() {
  static std::mt19937_64 engine(20240917);
  return engine;
}
// Bits that are likely to matter: corners of integers and of every float format, and noise.
inline uint64_t interesting(int bits) {
  static const uint64_t corners[] = {
      0, 1, 2, 3, 7, 8, 15, 16, 31, 32, 33, 63, 64, 0x7f, 0x80, 0x81, 0xff, 0x100, 0x7fff, 0x8000, 0x8001,
      0xffff, 0x10000, 0x7fffff, 0x800000, 0xffffff, 0x7fffffff, 0x80000000, 0x80000001, 0xffffffff,
      0x100000000, 0x7fffffffffffffff, 0x8000000000000000, 0x8000000000000001, 0xffffffffffffffff,
      0xfffffffffffffffe, 0xfffffffe, 0xfffe,
      // f32: one, subnormals, infinities, NaN, limits of integers
      0x3f800000, 0xbf800000, 0x3f000000, 0x00000001, 0x007fffff, 0x00800000, 0x00800001, 0x80800000,
      0x7f7fffff, 0xff7fffff, 0x7f800000, 0xff800000, 0x7fc00000, 0x7f800001, 0xffc01234, 0x4f000000,
      0xcf000000, 0x4f800000, 0x5f000000, 0x4effffff, 0x42fe0000, 0x43000000, 0xc3000000, 0x437f0000,
      0x3fc00000, 0x40200000, 0x477fe000, 0x477ff000, 0x33800000, 0x387fc000,
      // f64
      0x3ff0000000000000, 0xbff0000000000000, 0x0010000000000000, 0x000fffffffffffff, 0x7fefffffffffffff,
      0x7ff0000000000000, 0xfff0000000000000, 0x7ff8000000000000, 0x7ff0000000000001, 0xfff8000000001234,
      0x41e0000000000000, 0xc1e0000000000000, 0x43e0000000000000, 0x43f0000000000000, 0x3fe0000000000000,
      0x36a0000000000000, 0x380fffffe0000000, 0x47efffffefffffff,
      // f16 and bf16, twice
      0x3c003c00, 0xbc003c00, 0x04000400, 0x03ff8001, 0x7bff7c00, 0xfc007e00, 0x3f803f80, 0x00800080,
      0x7f7f7f80, 0x7fc0ff80};
  std::mt19937_64& engine = random();
  uint64_t value = engine();
  switch (engine() % 8) {
    case 0:
    case 1:
      value = corners[engine() % std::size(corners)];
      break;
    case 2:
      value = corners[engine() % std::size(corners)] + engine() % 5 - 2;
      break;
    case 3:
      value >>= engine() % 64;
      break;
    case 4:
      value = bits == 64 ? (value & 0x800fffffffffffff) | (1023 - 60 + engine() % 120) << 52
                         : (value & 0x807fffff) | (127 - 30 + engine() % 60) << 23;
      break;
    case 5:
      value = uint64_t(1) << engine() % 64;
      break;
    default:
      break;
  }
  return bits >= 64 ? value : value & ((uint64_t(1) << bits) - 1);
}

// Runs the row many times with random operands and masks; `reference` gives the destinations' values.
using Reference = std::function<Values(const Values& sources)>;
using Same = std::function<bool(uint64_t got, uint64_t expected)>;
inline void check(const std::string& opcode, const Reference& reference, int rounds = 200,
                  const std::vector<int>& widths = {}, const Same& same = nullptr) {
  const Row* row = find(opcode, widths);
  ASSERT_TRUE(row) << opcode;
  std::mt19937_64& engine = random();
  for (int round = 0; round < rounds; ++round) {
    std::vector<Lanes> in(row->sources.size()), before(row->destinations.size());
    for (size_t i = 0; i < in.size(); ++i)
      for (auto& value : in[i]) value = interesting(width(row->sources[i]));
    for (size_t i = 0; i < before.size(); ++i)
      for (auto& value : before[i]) value = interesting(width(row->destinations[i]));
    // Sometimes operands that are close to each other.
    if (in.size() >= 2 && round % 4 == 1 && row->sources[0] == row->sources[1])
      for (int lane = 0; lane < kLanes; ++lane)
        if (width(row->sources[0]) > 1)
          in[1][lane] = (in[0][lane] ^ (engine() & 1 ? uint64_t(1) << (width(row->sources[0]) - 1) : 0)) +
                        engine() % 3 - 1;
    for (size_t i = 0; i < in.size(); ++i)
      for (auto& value : in[i])
        if (width(row->sources[i]) < 64) value &= (uint64_t(1) << width(row->sources[i])) - 1;
    const uint32_t active = round % 3 == 0 ? kAllLanes : uint32_t(engine());
    const auto out = run(row->execute, row->destinations, row->sources, in, before, active);
    for (int lane = 0; lane < kLanes; ++lane) {
      Values sources;
      for (const Lanes& lanes : in) sources.push_back(lanes[lane]);
      const bool is_active = active >> lane & 1;
      const Values expected = is_active ? reference(sources) : Values();
      for (size_t i = 0; i < out.size(); ++i) {
        const uint64_t wanted = is_active ? expected[i] : before[i][lane];
        const bool is_same = out[i][lane] == wanted || (is_active && same && same(out[i][lane], wanted));
        if (is_same) continue;
        std::string text;
        for (uint64_t source : sources) {
          char hex[32];
          std::snprintf(hex, sizeof hex, " %#llx", static_cast<unsigned long long>(source));
          text += hex;
        }
        ASSERT_TRUE(is_same) << opcode << (is_active ? " of" : " in an inactive lane, of") << text << std::hex
                             << ": destination " << i << " is 0x" << out[i][lane] << ", expected 0x"
                             << wanted;
      }
    }
  }
}

}  // namespace rows
