// When the next version is due under `--interval auto`. Pure: no I/O, no clock, no thread. All times and
// costs are in seconds; moments count from any fixed one, the same for all calls. Rank 0's agent thread.
//
// A version is due when all of these allow it (docs/interval.md):
//   - the bound: all costs so far and the predicted cost of the next version are at most max_overhead of the
//     time since the start, and the next version begins at least cost / max_overhead after the last one
//     began;
//   - the optimum for the mean time between failures, if that is known;
//   - the shortest interval;
//   - the pause after attempts that failed, which doubles with each.
#pragma once

#include <array>
#include <string>

#include "coord/schedule.h"

namespace cropdl::coord {

// Seconds. What a version costs besides the time that it holds the program (the file system's work after it,
// cold caches) is not measured, and passes within seconds; and nobody gains from losing less than 10 s of
// work, since a restart takes about as long.
inline constexpr double kShortestInterval = 10;

// Seconds. A program that refuses may hold what it refuses for for a short time only, so it is asked again;
// once an hour is often enough for one that will never be saved.
inline constexpr double kLongestBackoff = 3600;

class IntervalPolicy {
 public:
  struct Settings {
    double max_overhead = kMaxOverhead;  // a fraction; from 1 on there is no bound
    double mtbf = 0;                     // 0: unknown
    double shortest = kShortestInterval;
  };

  // `expected_cost`: of the first version, as long as none has been measured.
  IntervalPolicy(Settings settings, double start, double expected_cost);

  // Another expectation. Does nothing once a version has been measured.
  void expect(double cost);
  // `cost`: for how long the program could not go on; `when`: the moment at which it went on.
  void taken(double when, double cost);
  void failed(double when, double cost);  // or refused

  bool measured() const { return measured_ > 0; }
  double predicted_cost() const;
  // From one version's beginning to the next one's, if costs stay as predicted and nothing fails.
  double interval() const;
  double due() const;
  // One line for people: the interval and what decides it, or the pause after attempts that failed.
  std::string reason() const;

 private:
  enum class Decides { kBound, kFailures, kShortest };
  struct Interval {
    double seconds;
    Decides decides;
  };
  Interval regular() const;

  Settings settings_;
  double start_;
  double expected_cost_;
  std::array<double, 3> costs_{};  // the last ones, a ring
  int measured_ = 0;               // how many of them, ever
  double spent_ = 0;               // all costs, also of attempts that failed
  double last_begin_;              // of the last version; at first the start
  double last_end_;                // of the last version or attempt
  int failures_ = 0;               // attempts since the last version
};

// Daly's estimate of the optimum time between the end of one version and the beginning of the next, if one
// costs `cost` and failures come every `mtbf` on average (J. T. Daly, "A higher order estimate of the optimum
// checkpoint interval for restart dumps", Future Generation Computer Systems 22 (2006), 303-312). Young's
// sqrt(2 cost mtbf) is its first term (J. W. Young, Communications of the ACM 17 (1974), 530-531).
double optimum_interval(double cost, double mtbf);

}  // namespace cropdl::coord
