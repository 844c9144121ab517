// Free ranges, beside what a map of single units says: the smallest that is large enough, lowest first,
// joined within fences.
#include "gpu_state/memory/ranges.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <utility>
#include <vector>

namespace cropdl::memory {
namespace {

// Addresses 1 to kUnits; a fence before each multiple of kFence.
constexpr uint64_t kUnits = 400, kFence = 100;

class Units {
 public:
  void set(uint64_t begin, uint64_t end, bool free) {
    std::fill(free_.begin() + at(begin), free_.begin() + at(end), free);
  }
  bool all(uint64_t begin, uint64_t end, bool free) const {
    return std::all_of(free_.begin() + at(begin), free_.begin() + at(end),
                       [free](bool one) { return one == free; });
  }
  // Size and begin of each free range.
  std::vector<std::pair<uint64_t, uint64_t>> ranges() const {
    std::vector<std::pair<uint64_t, uint64_t>> found;
    for (uint64_t unit = 1; unit <= kUnits; ++unit) {
      if (!free_[unit]) continue;
      if (unit == 1 || !free_[unit - 1] || unit % kFence == 0) found.emplace_back(0, unit);
      ++found.back().first;
    }
    return found;
  }

 private:
  static std::ptrdiff_t at(uint64_t unit) { return static_cast<std::ptrdiff_t>(unit); }
  std::vector<bool> free_ = std::vector<bool>(kUnits + 1);
};

TEST(RangesTest, AgreesWithSingleUnits) {
  std::mt19937_64 random(7);
  Ranges ranges;
  Units units;
  int taken = 0, placed = 0, given = 0;
  for (int step = 0; step < 40000; ++step) {
    const uint64_t begin = 1 + random() % kUnits, part = begin / kFence;
    const uint64_t fence_begin = std::max<uint64_t>(1, part * kFence),
                   fence_end = std::min(kUnits + 1, (part + 1) * kFence);
    const uint64_t end = begin + 1 + random() % std::min<uint64_t>(12, fence_end - begin);
    if (end > fence_end) continue;
    ASSERT_EQ(ranges.is_free(begin, end), units.all(begin, end, true));
    if (units.all(begin, end, false)) {
      ranges.add(begin, end, fence_begin, fence_end);
      units.set(begin, end, true);
      ++given;
    } else if (units.all(begin, end, true) && random() % 2) {
      ranges.take_at(begin, end);
      units.set(begin, end, false);
      ++placed;
    } else {
      const uint64_t size = end - begin;
      auto all = units.ranges();
      std::erase_if(all, [size](const auto& one) { return one.first < size; });
      const uint64_t wanted = all.empty() ? 0 : std::min_element(all.begin(), all.end())->second;
      ASSERT_EQ(ranges.take(size), wanted);
      if (wanted) units.set(wanted, wanted + size, false), ++taken;
    }
    for (uint64_t unit = 1; unit <= kUnits; ++unit)
      ASSERT_EQ(ranges.is_free(unit, unit + 1), units.all(unit, unit + 1, true));
  }
  EXPECT_GT(std::min({taken, placed, given}), 500);
}

}  // namespace
}  // namespace cropdl::memory
