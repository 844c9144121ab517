// See interval_policy.h. Pure; any thread.
#include "coord/interval_policy.h"

#include <algorithm>
#include <cmath>

#include "base/format.h"
#include "base/words.h"

namespace cropdl::coord {

double optimum_interval(double cost, double mtbf) {
  if (cost >= 2 * mtbf) return mtbf;
  const double share = cost / (2 * mtbf);
  return std::sqrt(2 * cost * mtbf) * (1 + std::sqrt(share) / 3 + share / 9) - cost;
}

double typical_cost(std::span<const double> last) {
  std::array<double, 3> costs{};
  const size_t count = std::min(last.size(), costs.size());
  if (count == 0) return 0;
  std::copy_n(last.begin(), count, costs.begin());
  std::sort(costs.begin(), costs.begin() + static_cast<std::ptrdiff_t>(count));
  return costs[std::min<size_t>(count - 1, 1)];
}

IntervalPolicy::IntervalPolicy(Settings settings, double start, double expected_cost)
    : settings_(settings),
      start_(start),
      expected_cost_(expected_cost),
      last_begin_(start),
      last_end_(start) {}

void IntervalPolicy::expect(double cost) {
  if (!measured()) expected_cost_ = cost;
}

void IntervalPolicy::taken(double when, double cost) {
  costs_[static_cast<size_t>(measured_++) % costs_.size()] = cost;
  spent_ += cost;
  last_begin_ = when - cost;
  last_end_ = when;
  failures_ = 0;
}

void IntervalPolicy::failed(double when, double cost) {
  spent_ += cost;
  last_end_ = when;
  ++failures_;
}

double IntervalPolicy::predicted_cost() const {
  if (!measured()) return expected_cost_;
  return typical_cost({costs_.data(), std::min(static_cast<size_t>(measured_), costs_.size())});
}

IntervalPolicy::Interval IntervalPolicy::regular() const {
  const double cost = predicted_cost();
  Interval interval{settings_.shortest + cost, Decides::kShortest};
  const auto consider = [&](double seconds, Decides decides) {
    if (seconds > interval.seconds) interval = {seconds, decides};
  };
  consider(cost / settings_.max_overhead, Decides::kBound);
  if (settings_.mtbf > 0) consider(cost + optimum_interval(cost, settings_.mtbf), Decides::kFailures);
  return interval;
}

double IntervalPolicy::interval() const { return regular().seconds; }

double IntervalPolicy::due() const {
  const double pause = settings_.shortest * std::exp2(std::min(failures_, 30));
  const double versions = spent_ + predicted_cost();
  return std::max({last_begin_ + interval(),
                   start_ + (versions + std::min(beside_, versions)) / settings_.max_overhead,
                   last_end_ + std::min(pause, std::max(kLongestBackoff, settings_.shortest))});
}

std::string IntervalPolicy::reason() const {
  if (failures_ > 0)
    return formatted("the next attempt in {}: {} failed", in_words(due() - last_end_),
                     failures_ == 1 ? "the last one" : formatted("the last {}", failures_));
  const Interval interval = regular();
  const std::string begin =
      formatted("a version every {}: one {} {}, and ", in_words(interval.seconds),
                measured() ? "costs" : "is expected to cost", in_words(predicted_cost()));
  if (interval.decides == Decides::kBound)
    return formatted("{}{:.3g} % may be lost (--max-overhead)", begin, settings_.max_overhead * 100);
  if (interval.decides == Decides::kFailures)
    return formatted("{}failures come every {} (--mtbf)", begin, in_words(settings_.mtbf));
  return formatted("{}{} is the shortest interval", begin, in_words(settings_.shortest));
}

}  // namespace cropdl::coord
