// links: cropdl_coord
// The automatic interval: its bound, its reaction to changing costs and failed attempts, and how close it
// comes to the best constant intervals for a known mean time between failures.
#include <gtest/gtest.h>

#include <optional>
#include <vector>

#include "coord/interval_policy.h"
#include "tests/unit/failure_simulator.h"

namespace cropdl::coord {
namespace {

using Settings = IntervalPolicy::Settings;

// Takes a version as soon as one is due. Returns when the program continued.
double take(IntervalPolicy& policy, double cost) {
  const double end = policy.due() + cost;
  policy.taken(end, cost);
  return end;
}

TEST(IntervalPolicy, TheFirstVersionComesWhenItsExpectedCostIsWithinTheBound) {
  IntervalPolicy policy({}, 1000, 0.34);
  EXPECT_DOUBLE_EQ(policy.due(), 1034);
  EXPECT_EQ(policy.reason(),
            "a version every 34 s: one is expected to cost 0.34 s, and 1 % may be lost (--max-overhead)");
  policy.expect(2);  // the program has grown
  EXPECT_DOUBLE_EQ(policy.due(), 1200);
  policy.taken(1200.5, 0.5);
  policy.expect(7);
  EXPECT_DOUBLE_EQ(policy.predicted_cost(), 0.5) << "what was measured counts from now on";
}

TEST(IntervalPolicy, OneOutlierOfTheVersionsBeforeARestartChangesNothing) {
  EXPECT_EQ(typical_cost(std::vector{1200.0, 1.0, 2.0, 900.0}), 2);
  EXPECT_EQ(typical_cost(std::vector{1.0, 2.0}), 2);
  EXPECT_EQ(typical_cost(std::vector{3.0}), 3);
  EXPECT_EQ(typical_cost({}), 0);
}

TEST(IntervalPolicy, VersionsLieTheirCostOverTheBoundApart) {
  IntervalPolicy policy({}, 0, 0.34);
  double before = take(policy, 0.34);
  for (int i = 0; i < 20; ++i) {
    const double next = take(policy, 0.34);
    EXPECT_NEAR(next - before, 34, 1e-9);
    before = next;
  }
  EXPECT_DOUBLE_EQ(policy.interval(), 34);
  EXPECT_EQ(policy.reason(), "a version every 34 s: one costs 0.34 s, and 1 % may be lost (--max-overhead)");
}

TEST(IntervalPolicy, WhatIsNotAVersionTakesItsPartOfTheBound) {
  constexpr double kStart = 0.05, kBeside = 0.002;  // a rate, after the start
  IntervalPolicy policy({}, 0, 0.34);
  double now = 0, spent = 0;
  const auto beside = [&] { return kStart + kBeside * now; };
  for (int i = 0; i < 200; ++i) {
    policy.beside(beside());
    while (now < policy.due()) {
      now = policy.due();
      policy.beside(beside());
    }
    EXPECT_LE(spent + 0.34 + beside(), 0.01 * now * (1 + 1e-9));
    EXPECT_LE(now, (spent + 0.34 + kStart) / 0.008 + 1) << "each comes as soon as that";
    policy.taken(now += 0.34, 0.34);
    spent += 0.34;
  }
  policy.beside(0.1 * now);
  EXPECT_NEAR(policy.due(), 2 * (spent + 0.34) / 0.01, 1e-6) << "half of the bound is left in any case";
}

TEST(IntervalPolicy, TimeThatWasNotUsedIsNotUsedUpInARow) {
  IntervalPolicy policy({}, 0, 1);
  policy.taken(10'000, 1);  // nothing was due for that long: the bound would allow a hundred at once
  EXPECT_DOUBLE_EQ(policy.due(), 10'099);
}

TEST(IntervalPolicy, CheapVersionsComeAtTheShortestInterval) {
  IntervalPolicy policy({}, 0, 0.01);
  EXPECT_DOUBLE_EQ(policy.due(), 10.01);
  EXPECT_DOUBLE_EQ(take(policy, 0.001), 10.011);
  EXPECT_NEAR(policy.due(), 20.011, 1e-9);
  EXPECT_EQ(policy.reason(), "a version every 10 s: one costs 0.001 s, and 10 s is the shortest interval");
}

TEST(IntervalPolicy, TheBoundHoldsAtEachMoment) {
  for (const uint64_t seed : {1, 2, 3, 4, 5, 6, 7, 8}) {
    std::mt19937_64 random(seed);
    const double bound = seed % 2 == 0 ? 0.01 : 0.05;
    IntervalPolicy policy({.max_overhead = bound}, 0, 1);
    std::lognormal_distribution<double> costs(0, 1);
    double spent = 0;
    for (int i = 0; i < 2000; ++i) {
      const double begin = policy.due(), predicted = policy.predicted_cost(), cost = costs(random);
      EXPECT_LE(spent + predicted, bound * begin * (1 + 1e-9)) << "before a version, with it";
      spent += cost;
      // A cost above the prediction cannot be undone; the next version is delayed until it is compensated.
      EXPECT_LE(spent, bound * (begin + cost) * (1 + 1e-9) + std::max(0.0, cost - predicted));
      if (random() % 5 == 0)
        policy.failed(begin + cost, cost);
      else
        policy.taken(begin + cost, cost);
    }
  }
}

TEST(IntervalPolicy, ACostThatChangesByTenIsFollowedWithinTwoVersions) {
  for (const double factor : {10.0, 0.1}) {
    IntervalPolicy policy({}, 0, 1);
    for (int i = 0; i < 10; ++i) take(policy, 1);
    take(policy, factor);
    take(policy, factor);
    EXPECT_DOUBLE_EQ(policy.predicted_cost(), factor);
    EXPECT_NEAR(policy.interval(), std::max(100 * factor, 10.1), 1e-9);
  }
}

TEST(IntervalPolicy, OneOutlierIsPaidForAndForgotten) {
  IntervalPolicy policy({}, 0, 1);
  for (int i = 0; i < 10; ++i) take(policy, 1);
  const double outlier = take(policy, 30);
  EXPECT_DOUBLE_EQ(policy.predicted_cost(), 1);
  EXPECT_NEAR(policy.due(), outlier - 30 + 3000, 1e-6) << "the bound holds again";
  const double next = take(policy, 1);
  EXPECT_NEAR(policy.due(), next - 1 + 100, 1e-6);
}

TEST(IntervalPolicy, AttemptsThatFailCountAndComeEverMoreRarely) {
  IntervalPolicy policy({}, 0, 0.001);
  double now = policy.due(), pause = 20;
  for (int i = 1; i <= 20; ++i) {
    policy.failed(now, 0.01);
    EXPECT_NEAR(policy.due() - now, std::min(pause, kLongestBackoff), 1e-6) << i;
    if (i == 1) {
      EXPECT_EQ(policy.reason(), "the next attempt in 20 s: the last one failed");
    } else if (i == 10) {
      EXPECT_EQ(policy.reason(), "the next attempt in 60 min: the last 10 failed");
    }
    now = policy.due();
    pause *= 2;
  }
  policy.taken(now, 0.001);
  EXPECT_NEAR(policy.due() - now, 10, 1e-6) << "it can be saved again";
  policy.failed(now + 10, 2000);  // it held the program for half an hour, without success
  EXPECT_GT(policy.due(), 200'000);
}

TEST(IntervalPolicy, TheMeanTimeBetweenFailuresCountsIfItAsksForLessThanTheBoundAllows) {
  EXPECT_NEAR(optimum_interval(1, 3600), 84.2, 0.1);  // Young: 84.9
  EXPECT_EQ(optimum_interval(5, 2), 2);
  IntervalPolicy policy({.mtbf = 86'400}, 0, 0.2);
  EXPECT_NEAR(policy.due(), 0.2 + optimum_interval(0.2, 86'400), 1e-9);
  take(policy, 0.2);
  EXPECT_EQ(policy.reason(), "a version every 3 min: one costs 0.2 s, and failures come every 24 h (--mtbf)");
  IntervalPolicy bounded({.mtbf = 3600}, 0, 1);
  EXPECT_DOUBLE_EQ(bounded.due(), 100) << "every 84 s would be the best, and costs more than 1 %";
}

// --- Against the best constant intervals
// ---------------------------------------------------------------------

class Planned {
 public:
  explicit Planned(double mtbf) : settings_{.max_overhead = 1, .mtbf = mtbf} {}
  // The first version's cost is a guess; a restart knows its version's cost.
  void begin(double now, double cost) { policy_.emplace(settings_, now, last_ > 0 ? last_ : 2 * cost); }
  double due() const { return policy_->due(); }
  void taken(double now, double cost) {
    policy_->taken(now, cost);
    last_ = cost;
  }

 private:
  Settings settings_;
  std::optional<IntervalPolicy> policy_;
  double last_ = 0;
};

constexpr double kMtbf = 6 * 3600;

struct Case {
  const char* name;
  TimeToFailure failures;
  double cost, later_cost;
};

// Time of each run, as a multiple of the job's work.
template <class Planner>
std::vector<double> times(const SimulatedJob& job, std::vector<Failures>& failures, const Planner& planner) {
  std::vector<double> all;
  for (Failures& f : failures) all.push_back(completion_time(job, f, planner) / job.work);
  return all;
}

double mean(const std::vector<double>& all) {
  double sum = 0;
  for (const double one : all) sum += one;
  return sum / static_cast<double>(all.size());
}

// Of the mean difference between runs, which had the same failures.
double standard_error(const std::vector<double>& a, const std::vector<double>& b) {
  double squares = 0;
  const double difference = mean(a) - mean(b);
  for (size_t i = 0; i < a.size(); ++i) squares += std::pow(a[i] - b[i] - difference, 2);
  return std::sqrt(squares) / static_cast<double>(a.size());
}

struct Best {
  double cheap = 0, dear = 0;  // intervals; equal if the cost does not change
  std::vector<double> times;
};

// Of the constant intervals, by a search on a grid: first that of the cheaper versions, while the other one
// is Daly's, and then the other one.
Best best_intervals(const SimulatedJob& job, std::vector<Failures>& failures) {
  const auto [cheap, dear] = std::minmax(job.cost, job.later_cost);
  const bool same = cheap == dear;
  Best best{optimum_interval(cheap, kMtbf), optimum_interval(dear, kMtbf), {}};
  const auto search = [&](double Best::*which, double step) {
    for (double interval = 500; interval < 25'000; interval *= step) {
      Best other = best;
      other.*which = interval;
      other.times = times(job, failures, ConstantIntervals(other.cheap, other.dear, (cheap + dear) / 2));
      if (best.times.empty() || mean(other.times) < mean(best.times)) best = std::move(other);
    }
  };
  search(&Best::cheap, same ? 1.15 : 1.3);
  if (!same) search(&Best::dear, 1.3);
  if (same) best.dear = best.cheap;
  return best;
}

TEST(IntervalPolicy, ItIsWithinTwoPercentOfTheBestIntervalForEachCost) {
  constexpr uint64_t kRuns = 40;
  std::vector<Case> cases;
  for (const auto& [cost, later] :
       {std::pair{60.0, 60.0}, {20.0, 200.0}, {200.0, 20.0}, {1800.0, 1800.0}, {180.0, 1800.0}}) {
    cases.push_back({"exponential", exponential(kMtbf), cost, later});
    cases.push_back({"Weibull 0.8", weibull(kMtbf, 0.8), cost, later});
    cases.push_back({"Weibull 0.65", weibull(kMtbf, 0.65), cost, later});
    cases.push_back({"Weibull 0.5", weibull(kMtbf, 0.5), cost, later});
    cases.push_back({"bursts", bursts(kMtbf), cost, later});
  }
  for (const Case& c : cases) {
    const SimulatedJob job{100 * kMtbf, 120, c.cost, c.later_cost};
    std::vector<Failures> failures;
    for (uint64_t run = 0; run < kRuns; ++run) failures.emplace_back(c.failures, run);
    const std::vector<double> policy = times(job, failures, Planned(kMtbf));
    const Best best = best_intervals(job, failures);
    const double time = mean(best.times), noise = standard_error(policy, best.times) / time;
    std::printf(
        "%-12s cost %4.0f, then %4.0f s: best %.4f (%5.0f, %5.0f s), policy %.4f: %+.2f %% (+- %.2f)\n",
        c.name, c.cost, c.later_cost, time, best.cheap, best.dear, mean(policy),
        100 * (mean(policy) / time - 1), 100 * noise);
    EXPECT_LT(noise, 0.005) << c.name;
    EXPECT_LT(mean(policy), 1.02 * time) << c.name;
  }
}

}  // namespace
}  // namespace cropdl::coord
