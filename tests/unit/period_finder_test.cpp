// links: cropdl_boundaries
// Finds iterations in streams of symbols: real loop shapes, disturbances, and streams without iterations.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <random>
#include <string>
#include <utility>

#include "interpose/boundaries/period_finder.h"

namespace cropdl::boundaries {
namespace {

// A letter is a call site; its argument is 0 by default.
Symbol call(char site, uint64_t what = 0) {
  return {static_cast<uint64_t>(site) << 32 | what, static_cast<uint64_t>(site)};
}

class Loop : public testing::Test {
 protected:
  void make(const std::string& calls) {
    for (const char c : calls) finder.add(call(c));
  }
  // Makes an iteration, which ends with its last call.
  void iterate(const std::string& calls) {
    make(calls);
    ++done;
    if (found_after == 0 && finder.found()) found_after = done;
  }
  // The buckets come in a different order each time.
  void iterate_in_any_order(std::string buckets, const std::string& rest) {
    make("IWB");
    std::mt19937 random(7);
    for (int i = 0; i < 200; ++i) {
      std::shuffle(buckets.begin(), buckets.end(), random);
      iterate(buckets + rest);
      if (found_after != 0) expect_number();
    }
  }
  // Once an iteration is found, the finder's count equals the program's.
  void expect_number() const {
    EXPECT_TRUE(finder.at_boundary()) << "iteration " << done;
    EXPECT_EQ(finder.iterations(), done);
  }
  // Five epochs, each so many iterations and an evaluation. The first evaluation shows where iterations
  // begin.
  void make_epochs(const std::string& before, int iterations, const std::string& evaluation) {
    finder = {};
    done = 0;
    make(before);
    for (int epoch = 0; epoch < 5; ++epoch) {
      for (int i = 0; i < iterations; ++i) {
        iterate("abc");
        if (epoch > 0 && i > 0) expect_number();
      }
      make(evaluation);
      if (epoch > 0) {
        EXPECT_EQ(finder.iterations(), done) << before << " " << evaluation;
      }
    }
  }

  PeriodFinder finder;
  uint64_t done = 0, found_after = 0;
};

TEST_F(Loop, IsFoundAfterThreeIterations) {
  make("IBBWQ");
  for (int i = 0; i < 3; ++i) iterate("abc");
  EXPECT_EQ(found_after, 3u);
  expect_number();
  for (int i = 0; i < 1000; ++i) {
    make("a");
    EXPECT_FALSE(finder.at_boundary());
    iterate("bc");
    expect_number();
    EXPECT_TRUE(finder.uninterrupted());
  }
  EXPECT_EQ(finder.pattern().length, 3u);
}

TEST_F(Loop, OfOneCallIsFoundSoon) {
  make("IBW");
  for (int i = 0; i < 6; ++i) iterate("a");
  EXPECT_LE(found_after, 6u);
  expect_number();
}

TEST_F(Loop, WithBucketsInVaryingOrderIsOne) {
  iterate_in_any_order("pqrstuvw", "l");
  EXPECT_EQ(found_after, 3u);
}

TEST_F(Loop, WithBucketsOfWhichSomeAreEqualIsOne) {
  iterate_in_any_order("pqqrss", "kl");
  EXPECT_LE(found_after, 6u);
}

// The first evaluation shows where iterations begin.
TEST_F(Loop, BeginsAfterAnEvaluationThatFollowsSimilarCalls) {
  for (const std::string before : {"c", "bc", "IWbc"}) {
    make_epochs(before, 7, "ee");
    iterate("abc");
    EXPECT_EQ(finder.iterations(), done);
    EXPECT_EQ(finder.pattern().length, 3u);
  }
}

// Likewise if the evaluation is a loop itself.
TEST_F(Loop, BeginsAfterALongEvaluationThatFollowsSimilarCalls) {
  for (const std::string before : {"c", "bc", "IWbc"})
    for (const std::string step : {"e", "ef", "efgh"}) {
      std::string evaluation;
      for (int i = 0; i < 45; ++i) evaluation += step;
      make_epochs(before, 50, evaluation);
    }
}

TEST_F(Loop, ContinuesAfterAnEvaluation) {
  make("IW");
  for (int epoch = 0; epoch < 20; ++epoch) {
    for (int i = 0; i < 7; ++i) {
      iterate("abc");
      if (found_after != 0) expect_number();
    }
    if (found_after != 0) make("ee");
  }
  EXPECT_EQ(found_after, 3u);
}

TEST_F(Loop, ContinuesAtOnceAfterALongEvaluationThatIsALoop) {
  for (const std::string evaluation : {"e", "ef", "efgh"}) {
    finder = {};
    done = 0;
    make("IW");
    for (int epoch = 0; epoch < 5; ++epoch) {
      for (int i = 0; i < 50; ++i) {
        iterate("abc");
        if (i > 2 || epoch > 0) expect_number();
      }
      for (int i = 0; i < 45; ++i) make(evaluation);
      EXPECT_EQ(finder.iterations(), done) << evaluation;
    }
  }
}

// The evaluation contains the same calls, so one window may lie inside it.
TEST_F(Loop, ContinuesAfterAnEvaluationWithSimilarCalls) {
  make("IW");
  for (int epoch = 0; epoch < 5; ++epoch) {
    for (int i = 0; i < 50; ++i) {
      iterate("abc");
      if (i > 2 || (epoch > 0 && i > 0)) expect_number();
    }
    for (int i = 0; i < 45; ++i) make("ec");
    EXPECT_EQ(finder.iterations(), done);
  }
}

TEST_F(Loop, CountsALastBatchThatIsSmaller) {
  make("IW");
  for (int i = 0; i < 60; ++i) {
    const uint64_t size = i % 10 == 9 ? 500 : 1000;
    finder.add(call('a', size));
    finder.add(call('b', 1));
    finder.add(call('c', size));
    ++done;
    if (i >= 5) expect_number();
  }
}

TEST_F(Loop, WithAccumulationOfGradientsHasTheLargerStep) {
  make("IW");
  for (int i = 0; i < 20; ++i) iterate("llllab");  // four losses, then the gradients
  EXPECT_EQ(found_after, 3u);
  expect_number();
  EXPECT_EQ(finder.pattern().length, 6u);
}

TEST_F(Loop, OfTwoAlternatingStepsIsThePair) {
  for (int i = 0; i < 20; ++i) iterate("dDgG");
  EXPECT_EQ(found_after, 3u);
  expect_number();
}

TEST_F(Loop, ThatIsNestedIsTheInnerOne) {
  make("IW");
  for (int outer = 0; outer < 10; ++outer) {
    for (int inner = 0; inner < 12; ++inner) {
      iterate("xy");
      if (found_after != 0) expect_number();
    }
    make("o");
  }
  EXPECT_LE(found_after, 4u);
}

TEST_F(Loop, OfVaryingSequencesIsFoundByCallSites) {
  std::mt19937_64 random(3);
  for (int i = 0; i < 100; ++i) {
    finder.add(call('a', random() % 1'000'000));
    finder.add(call('b', random() % 1'000'000));
    ++done;
  }
  expect_number();
  EXPECT_TRUE(finder.pattern().by_site);
}

// As tests/apps/mpi/loops.c makes them: tests/driver/boundary_scenarios.py waits for 46 iterations.
TEST_F(Loop, OfThreeCallsWithVaryingSequencesIsFoundAfter130Calls) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    finder = {};
    done = found_after = 0;
    make("IWBB");
    std::mt19937_64 random(seed);
    for (int i = 0; i < 120; ++i) {
      finder.add(call('a', random() % 60));
      finder.add(call('a', random() % 60));
      iterate("l");
      if (found_after != 0) expect_number();
    }
    EXPECT_GT(found_after, 40u) << "seed " << seed;
    EXPECT_LE(found_after, 46u) << "seed " << seed;
    EXPECT_EQ(finder.pattern().length, 3u);
  }
}

TEST_F(Loop, WithNewCommunicatorsEachTimeIsFoundByCallSites) {
  for (uint64_t i = 1; i < 100; ++i) {
    for (const char c : std::string("dxyf")) finder.add(call(c, c == 'd' ? 0 : i));
    ++done;
  }
  expect_number();
}

TEST_F(Loop, OfASecondPhaseIsFoundAgain) {
  make("IW");
  for (int i = 0; i < 40; ++i) iterate("abc");
  for (int i = 0; i < 40; ++i) iterate("uvwxyz");
  expect_number();
  EXPECT_EQ(finder.pattern().length, 6u);
}

TEST_F(Loop, OfManyEqualCallsWithOneOfAnotherSize) {
  make("IW");
  for (int i = 0; i < 10; ++i) {
    for (uint64_t layer = 0; layer < 100; ++layer) finder.add(call('g', layer + 1));
    finder.add(call('l'));
    ++done;
  }
  expect_number();
  EXPECT_EQ(finder.pattern().length, 101u);
}

TEST_F(Loop, IsNotFoundInAMillionRandomCalls) {
  for (const uint64_t kinds : {8, 16, 1000}) {
    std::mt19937_64 random(kinds);
    PeriodFinder alone;
    for (int i = 0; i < 1'000'000 && !alone.found(); ++i) {
      const uint64_t which = random() % kinds;
      alone.add({which, which});
    }
    EXPECT_FALSE(alone.found()) << kinds << " kinds: " << alone.pattern().length;
  }
}

// The price of finding loops of one or two calls: kLeastKinds, docs/boundaries.md.
TEST_F(Loop, OfTwoOrThreeRandomKindsIsFoundByChance) {
  for (const auto& [kinds, most] : {std::pair{2u, 20u}, {3u, 200u}}) {
    uint64_t calls = 0;
    constexpr uint64_t kSeeds = 200;
    for (uint64_t seed = 0; seed < kSeeds; ++seed) {
      std::mt19937_64 random(seed);
      PeriodFinder alone;
      for (int i = 0; i < 2000 && !alone.found(); ++i, ++calls) {
        const uint64_t which = random() % kinds;
        alone.add({which, which});
      }
    }
    std::printf("%u kinds: after %.0f calls\n", kinds, static_cast<double>(calls) / kSeeds);
    EXPECT_LT(calls / kSeeds, most) << kinds << " kinds";
  }
}

TEST_F(Loop, ContinuesInAnotherFinderInsideAnIteration) {
  make("IW");
  for (int i = 0; i < 5; ++i) iterate("abcd");
  make("ab");
  PeriodFinder other;
  other.resume(finder.place());
  finder = other;
  EXPECT_FALSE(finder.at_boundary());
  iterate("cd");
  expect_number();
  iterate("abcd");
  expect_number();
}

TEST_F(Loop, ContinuesInAnotherFinderAfterAnInterruption) {
  make("IW");
  for (int i = 0; i < 5; ++i) iterate("abcd");
  make("xyzxyzabc");
  PeriodFinder other;
  other.resume(finder.place());
  finder = other;
  iterate("d");
  expect_number();
}

TEST_F(Loop, WithOneNewCommunicatorEachTimeIsFoundByCallSites) {
  for (uint64_t i = 1; i < 100; ++i) {
    make("d");
    finder.add(call('x', i));
    make("rl");
    ++done;
  }
  expect_number();
}

TEST_F(Loop, ContinuesAfterLostCalls) {
  make("IW");
  for (int i = 0; i < 5; ++i) iterate("abcd");
  finder.gap();
  finder.skip(3);
  done += 3;
  make("cd");  // the end of the fourth iteration
  ++done;
  iterate("abcd");
  EXPECT_EQ(finder.iterations() + 1, done);  // the end of the incomplete iteration was not seen
  EXPECT_TRUE(finder.at_boundary());
}

}  // namespace
}  // namespace cropdl::boundaries
