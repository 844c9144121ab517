// XORWOW and Philox4x32-10 in the orders that cuRAND documents for its host API
// (CURAND_ORDERING_PSEUDO_LEGACY, the default), bit for bit; tests compare them with NVIDIA's host
// generators. Pure; one thread at a time per sequence. Source: cuRAND documentation, "Host API Overview"
// (orders); curand_kernel.h (seeds); Salmon et al., SC'11 (Philox); Marsaglia, 2003 (xorwow).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace cropdl::rand {

class Sequence {
 public:
  virtual ~Sequence() = default;
  virtual void restart(uint64_t seed, uint64_t offset) = 0;
  // Switches to another seed's sequence, at the position that NVIDIA's host generators take (as observed):
  // that of an offset equal to the amount drawn so far, counted in turns (of XORWOW's generators, of Philox's
  // groups).
  virtual void reseed(uint64_t seed) = 0;
  // `count` results. For kinds that come in pairs, each result gets both words of its pair and its position
  // in it.
  virtual void words(uint32_t* to, size_t count) = 0;
  virtual void doubles(std::array<uint32_t, 2>* to, size_t count) = 0;
  struct Half {
    std::array<uint32_t, 2> words;
    bool second;
  };
  struct DoubleHalf {
    std::array<uint32_t, 4> words;
    bool second;
  };
  virtual bool pairs(Half* to, size_t count) = 0;  // false: the count must be even
  virtual bool double_pairs(DoubleHalf* to, size_t count) = 0;
};

// 4096 generators, 2^67 steps apart, used in turn.
class Xorwow : public Sequence {
 public:
  static constexpr int kGenerators = 4096;
  void restart(uint64_t seed, uint64_t offset) override;
  void reseed(uint64_t seed) override;
  void words(uint32_t* to, size_t count) override;
  void doubles(std::array<uint32_t, 2>* to, size_t count) override;
  bool pairs(Half* to, size_t count) override;
  bool double_pairs(DoubleHalf* to, size_t count) override;

  struct State {
    std::array<uint32_t, 5> v;
    uint32_t d;
  };

 private:
  State& turn();
  std::vector<State> generators_;
  int next_ = 0;
  uint64_t turns_ = 0;  // plus the offset
};

// 65536 subsequences, used in turn for four results each.
class Philox : public Sequence {
 public:
  static constexpr uint32_t kGroups = 65536;
  void restart(uint64_t seed, uint64_t offset) override;
  void reseed(uint64_t seed) override;
  void words(uint32_t* to, size_t count) override;
  void doubles(std::array<uint32_t, 2>* to, size_t count) override;
  bool pairs(Half* to, size_t count) override;
  bool double_pairs(DoubleHalf* to, size_t count) override;

 private:
  std::array<uint32_t, 4> block(uint64_t ahead) const;  // of the current group
  // Advances to the next result; each group that is left has used `blocks` blocks.
  void step(uint32_t blocks);
  uint64_t seed_ = 0;
  std::vector<uint64_t> used_;  // blocks used by each group
  uint32_t group_ = 0, slot_ = 0;
  uint64_t turns_ = 0;  // plus the offset
};

}  // namespace cropdl::rand
