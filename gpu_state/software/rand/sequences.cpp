#include "gpu_state/software/rand/sequences.h"

namespace cropdl::rand {

namespace {

using Vector = std::array<uint32_t, 5>;  // xorwow's shift register: 160 bits
using State = Xorwow::State;

// A linear map of 160 bits, as the image of each bit.
struct Map {
  std::array<Vector, 160> image;
  Vector of(const Vector& vector) const {
    Vector result{};
    for (size_t bit = 0; bit < 160; bit++)
      if (vector[bit / 32] >> bit % 32 & 1)
        for (size_t word = 0; word < 5; word++) result[word] ^= image[bit][word];
    return result;
  }
  Map squared() const {
    Map result;
    for (size_t bit = 0; bit < 160; bit++) result.image[bit] = of(image[bit]);
    return result;
  }
};

Vector stepped(Vector v) {
  uint32_t t = v[0] ^ (v[0] >> 2);
  return {v[1], v[2], v[3], v[4], (v[4] ^ (v[4] << 4)) ^ (t ^ (t << 1))};
}

// The maps of 2^k steps, for k from 0 on.
const Map& steps(int power) {
  static const std::vector<Map>* all = [] {
    auto* made = new std::vector<Map>(68);
    for (size_t bit = 0; bit < 160; bit++) {
      Vector unit{};
      unit[bit / 32] = 1u << bit % 32;
      (*made)[0].image[bit] = stepped(unit);
    }
    for (size_t k = 1; k < made->size(); k++) (*made)[k] = (*made)[k - 1].squared();
    return made;
  }();
  return (*all)[static_cast<size_t>(power)];
}

constexpr uint32_t kWeyl = 362437;

uint32_t draw(State& state) {
  state.v = stepped(state.v);
  state.d += kWeyl;
  return state.v[4] + state.d;
}

void skip(State& state, uint64_t count) {
  for (int k = 0; count >> k; k++)
    if (count >> k & 1) state.v = steps(k).of(state.v);
  state.d += static_cast<uint32_t>(count) * kWeyl;
}

}  // namespace

void Xorwow::restart(uint64_t seed, uint64_t offset) {
  turns_ = offset;
  uint32_t s0 = static_cast<uint32_t>(seed) ^ 0xaad26b49u,
           s1 = static_cast<uint32_t>(seed >> 32) ^ 0xf7dcefddu;
  uint32_t t0 = 1099087573u * s0, t1 = 2591861531u * s1;
  State state{{123456789u + t0, 362436069u ^ t0, 521288629u + t1, 88675123u ^ t1, 5783321u + t0},
              6615241u + t1 + t0};
  generators_.resize(kGenerators);
  for (State& one : generators_) {
    one = state;
    state.v = steps(67).of(state.v);  // 2^67 times Weyl's constant is 0 modulo 2^32
  }
  next_ = static_cast<int>(offset % kGenerators);
  uint64_t rounds = offset / kGenerators;
  for (int i = 0; i < kGenerators; i++)
    if (uint64_t ahead = rounds + (i < next_ ? 1 : 0)) skip(generators_[static_cast<size_t>(i)], ahead);
}

void Xorwow::reseed(uint64_t seed) { restart(seed, turns_); }

State& Xorwow::turn() {
  turns_++;
  State& state = generators_[static_cast<size_t>(next_)];
  next_ = (next_ + 1) % kGenerators;
  return state;
}

void Xorwow::words(uint32_t* to, size_t count) {
  for (size_t i = 0; i < count; i++) to[i] = draw(turn());
}

void Xorwow::doubles(std::array<uint32_t, 2>* to, size_t count) {
  for (size_t i = 0; i < count; i++) {
    State& state = turn();
    uint32_t x = draw(state);
    to[i] = {x, draw(state)};
  }
}

bool Xorwow::pairs(Half* to, size_t count) {
  if (count % 2) return false;
  for (size_t i = 0; i < count; i += 2) {
    State& state = turn();
    uint32_t x = draw(state), y = draw(state);
    to[i] = {{x, y}, false};
    to[i + 1] = {{x, y}, true};
  }
  return true;
}

bool Xorwow::double_pairs(DoubleHalf* to, size_t count) {
  if (count % 2) return false;
  for (size_t i = 0; i < count; i += 2) {
    State& state = turn();
    std::array<uint32_t, 4> all;
    for (uint32_t& word : all) word = draw(state);
    to[i] = {all, false};
    to[i + 1] = {all, true};
  }
  return true;
}

void Philox::restart(uint64_t seed, uint64_t offset) {
  seed_ = seed;
  turns_ = offset;
  constexpr uint64_t kRound = uint64_t{4} * kGroups;
  uint64_t within = offset % kRound;
  group_ = static_cast<uint32_t>(within / 4);
  slot_ = static_cast<uint32_t>(within % 4);
  used_.assign(kGroups, offset / kRound);
  for (uint32_t group = 0; group < group_; group++) used_[group]++;
}

void Philox::reseed(uint64_t seed) {
  if (turns_)
    restart(seed, turns_);
  else
    seed_ = seed;
}

std::array<uint32_t, 4> Philox::block(uint64_t ahead) const {
  uint64_t counter = used_[group_] + ahead;
  std::array<uint32_t, 4> c = {static_cast<uint32_t>(counter), static_cast<uint32_t>(counter >> 32), group_,
                               0};
  uint32_t k0 = static_cast<uint32_t>(seed_), k1 = static_cast<uint32_t>(seed_ >> 32);
  for (int round = 0; round < 10; round++) {
    uint64_t p = uint64_t{0xD2511F53} * c[0], q = uint64_t{0xCD9E8D57} * c[2];
    c = {static_cast<uint32_t>(q >> 32) ^ c[1] ^ k0, static_cast<uint32_t>(q),
         static_cast<uint32_t>(p >> 32) ^ c[3] ^ k1, static_cast<uint32_t>(p)};
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  return c;
}

void Philox::step(uint32_t blocks) {
  if (++slot_ < 4) return;
  slot_ = 0;
  turns_++;
  used_[group_] += blocks;
  group_ = (group_ + 1) % kGroups;
}

void Philox::words(uint32_t* to, size_t count) {
  for (size_t i = 0; i < count; i++) {
    to[i] = block(0)[slot_];
    step(1);
  }
}

void Philox::doubles(std::array<uint32_t, 2>* to, size_t count) {
  for (size_t i = 0; i < count; i++) {
    auto words = block(slot_ / 2);
    const size_t first = slot_ % 2 == 0 ? 0 : 2;
    to[i] = {words[first], words[first + 1]};
    step(2);
  }
}

bool Philox::pairs(Half* to, size_t count) {
  for (size_t i = 0; i < count; i++) {
    auto words = block(0);
    to[i] = {{words[slot_ & 2], words[(slot_ & 2) + 1]}, slot_ % 2 == 1};
    step(1);
  }
  return true;
}

bool Philox::double_pairs(DoubleHalf* to, size_t count) {
  for (size_t i = 0; i < count; i++) {
    to[i] = {block(slot_ / 2), slot_ % 2 == 1};
    step(2);
  }
  return true;
}

}  // namespace cropdl::rand
