// Simulates a long job on machines that fail: how long it takes if a planner chooses the moments of versions.
// Deterministic: failures come at the same moments whatever the planner does. Times are in seconds.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <random>
#include <utility>
#include <vector>

namespace cropdl::coord {

// Draws the time from one failure to the next.
using TimeToFailure = std::function<double(std::mt19937_64&)>;

inline TimeToFailure exponential(double mtbf) {
  return [d = std::exponential_distribution<double>(1 / mtbf)](std::mt19937_64& random) mutable {
    return d(random);
  };
}

// With a shape below 1, failures cluster.
inline TimeToFailure weibull(double mtbf, double shape) {
  return [d = std::weibull_distribution<double>(shape, mtbf / std::tgamma(1 + 1 / shape))](
             std::mt19937_64& random) mutable { return d(random); };
}

// Two states of exponential length: for a tenth of the time, failures are ten times as frequent as otherwise.
inline TimeToFailure bursts(double mtbf) {
  struct State {
    bool burst = false;
    double left = 0;
  };
  return [=, state = State()](std::mt19937_64& random) mutable {
    const double calm_mtbf = mtbf * (0.9 + 0.1 * 10), calm = 18 * mtbf, burst = 2 * mtbf;
    const auto draw = [&](double mean) { return std::exponential_distribution<double>(1 / mean)(random); };
    if (state.left == 0) state.left = draw(calm);
    for (double passed = 0;;) {
      const double next = draw(state.burst ? calm_mtbf / 10 : calm_mtbf);
      if (next < state.left) {
        state.left -= next;
        return passed + next;
      }
      passed += state.left;
      state.burst = !state.burst;
      state.left = draw(state.burst ? burst : calm);
    }
  };
}

// The moments of failures in one run, drawn on demand.
class Failures {
 public:
  Failures(TimeToFailure next, uint64_t seed) : next_(std::move(next)), random_(seed) {}
  double at(size_t n) {
    while (moments_.size() <= n)
      moments_.push_back((moments_.empty() ? 0 : moments_.back()) + next_(random_));
    return moments_[n];
  }

 private:
  TimeToFailure next_;
  std::mt19937_64 random_;
  std::vector<double> moments_;
};

struct SimulatedJob {
  double work = 0;        // the job's time without versions and failures
  double restart = 0;     // from a failure to the continuation; a failure may hit this time, too
  double cost = 0;        // of a version in the first half of the work
  double later_cost = 0;  // of a version in the second half
  double cost_at(double done) const { return done < work / 2 ? cost : later_cost; }
};

// Planner: begin(now, cost): a start or restart, with the expected cost of a version; due(now): the moment of
// the next version; taken(now, cost).
template <class Planner>
double completion_time(const SimulatedJob& job, Failures& failures, Planner planner) {
  double now = 0, saved = 0;
  for (size_t failure = 0;; ++failure) {
    const double fails = failures.at(failure);
    if (failure > 0) now += job.restart;
    if (fails < now) {  // during the restart
      now = fails;
      continue;
    }
    double done = saved;
    planner.begin(now, job.cost_at(done));
    for (;;) {
      const double due = std::max(now, planner.due()), end = now + (job.work - done);
      if (end <= std::min(due, fails)) return end;
      if (fails <= due) break;
      done += due - now;
      const double cost = job.cost_at(done);
      if (fails < due + cost) break;
      now = due + cost;
      saved = done;
      planner.taken(now, cost);
    }
    now = fails;
  }
}

// Takes a version after a fixed amount of work: one while a version costs at most `limit`, another one while
// it costs more.
class ConstantIntervals {
 public:
  ConstantIntervals(double cheap, double dear, double limit) : cheap_(cheap), dear_(dear), limit_(limit) {}
  void begin(double now, double cost) { taken(now, cost); }
  double due() const { return since_ + (costs_ > limit_ ? dear_ : cheap_); }
  void taken(double now, double cost) { since_ = now, costs_ = cost; }

 private:
  double cheap_, dear_, limit_, since_ = 0, costs_ = 0;
};

}  // namespace cropdl::coord
