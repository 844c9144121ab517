// links: gpu_data
// Every row gives the same bits in each instruction set that this processor has, and leaves inactive lanes
// alone.
#include <set>

#include "gpu_state/software/engine/data/tables.h"
#include "rows.h"

namespace {

using namespace cropdl::engine;
using Tables = std::vector<Entries>;

#define TABLES(target)                                                                                     \
  {                                                                                                        \
    cropdl::engine::target::integer(), cropdl::engine::target::logic(), cropdl::engine::target::compare(), \
        cropdl::engine::target::floating(), cropdl::engine::target::convert(),                             \
        cropdl::engine::target::half(), cropdl::engine::target::approximate()                              \
  }
const Tables kBaseline = TABLES(baseline);

std::vector<Kind> kinds(const Kind* list, size_t limit) {
  std::vector<Kind> result;
  for (size_t i = 0; i < limit && list[i] != Kind::kNone; ++i) result.push_back(list[i]);
  return result;
}

void compare_with_baseline(const Tables& other) {
  ASSERT_EQ(kBaseline.size(), other.size());
  for (size_t table = 0; table < other.size(); ++table) {
    ASSERT_EQ(kBaseline[table].count, other[table].count);
    for (size_t i = 0; i < other[table].count; ++i) {
      const Entry &one = kBaseline[table].first[i], &two = other[table].first[i];
      ASSERT_STREQ(one.opcode, two.opcode);
      const auto destinations = kinds(one.destinations, 4), sources = kinds(one.sources, 8);
      for (int round = 0; round < 12; ++round) {
        std::vector<rows::Lanes> in(sources.size()), before(destinations.size());
        for (size_t k = 0; k < in.size(); ++k)
          for (auto& value : in[k]) value = rows::interesting(rows::width(sources[k]));
        for (size_t k = 0; k < before.size(); ++k)
          for (auto& value : before[k]) value = rows::interesting(rows::width(destinations[k]));
        const uint32_t active = round % 3 == 0 ? kAllLanes : uint32_t(rows::random()());
        const auto expected = rows::run(one.execute, destinations, sources, in, before, active);
        const auto got = rows::run(two.execute, destinations, sources, in, before, active);
        for (size_t d = 0; d < got.size(); ++d)
          for (int lane = 0; lane < kLanes; ++lane) {
            ASSERT_EQ(got[d][lane], expected[d][lane])
                << one.opcode << " " << one.first << " of 0x" << std::hex << (in.empty() ? 0 : in[0][lane])
                << " 0x" << (in.size() > 1 ? in[1][lane] : 0) << " 0x" << (in.size() > 2 ? in[2][lane] : 0);
            if (!(active >> lane & 1)) {
              ASSERT_EQ(got[d][lane], before[d][lane]) << one.opcode << " wrote an inactive lane";
            }
          }
      }
    }
  }
}

TEST(ArithmeticTargets, Avx2AndBaselineGiveTheSameResults) {
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma"))
    GTEST_SKIP() << "this processor has no AVX2";
  compare_with_baseline(TABLES(avx2));
}
TEST(ArithmeticTargets, ModifiersMayStandInAnyOrder) {
  EXPECT_EQ(canonical("min.s16x2.relu"), canonical("min.relu.s16x2"));
  EXPECT_EQ(canonical("setp.lt.ftz.and.f32"), canonical("setp.lt.and.ftz.f32"));
  EXPECT_EQ(canonical("add.f32.rn"), canonical("add.rn.f32"));
  EXPECT_NE(canonical("cvt.f32.f64"), canonical("cvt.f64.f32"));
}

// The lowering finds a row by its opcode and the widths of its operands: no two rows may agree in both.
TEST(ArithmeticTargets, NoTwoRowsAreAlike) {
  std::set<std::string> seen;
  for (const Row& row : data_rows()) {
    std::string key = canonical(row.opcode);
    for (Kind kind : row.destinations) key += " d" + std::to_string(rows::width(kind));
    for (Kind kind : row.sources) key += " s" + std::to_string(rows::width(kind));
    EXPECT_TRUE(seen.insert(key).second) << key;
    EXPECT_TRUE(row.execute) << key;
    if (row.what != "matrix") {
      EXPECT_LE(row.destinations.size() + row.sources.size(), size_t(Instruction::kOperands)) << key;
    }
  }
  EXPECT_GT(seen.size(), 4000u);
}

}  // namespace
