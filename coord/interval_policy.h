// When the next version is due under `--interval auto`. Pure: no I/O, clock or thread. Times and costs in
// seconds; moments from any fixed origin. Rank 0's agent thread.
//
// A version is due when all of these allow it (docs/interval.md):
//   - the bound: all costs so far, also of what is not a version, plus the predicted cost are at most
//     max_overhead of the time since the start, and versions begin at least cost / max_overhead apart;
//   - the optimum for the mean time between failures, if that is known;
//   - the shortest interval;
//   - the pause after failed attempts, which doubles with each.
#pragma once

#include <array>
#include <span>
#include <string>

#include "coord/schedule.h"

namespace cropdl::coord {

// Seconds. Unmeasured costs of a version (later file system work, cold caches) pass within seconds. Saving
// less than 10 s of work gains nothing: a restart takes about as long.
inline constexpr double kShortestInterval = 10;

// Seconds. A refusal may be brief; once an hour is enough for a program that can never be saved.
inline constexpr double kLongestBackoff = 3600;

// What the next version costs: the median of the last three, which ignores one outlier and follows a lasting
// change after two versions. Of two the larger, since the bound is a promise. 0: there are none.
double typical_cost(std::span<const double> last);

class IntervalPolicy {
 public:
  struct Settings {
    double max_overhead = kMaxOverhead;  // a fraction; no bound if >= 1
    double mtbf = 0;                     // 0: unknown
    double shortest = kShortestInterval;
  };

  // `expected_cost`: the first version's, until a cost has been measured.
  IntervalPolicy(Settings settings, double start, double expected_cost);

  void expect(double cost);  // changes the expected cost, until one has been measured
  // `cost`: how long the program was held; `when`: when it resumed.
  void taken(double when, double cost);
  void failed(double when, double cost);  // failed or refused
  // `cost`: of everything so far that is not a version. No more of it counts than the versions cost together
  // with the next one: if it is more, the bound is exceeded, and there are versions all the same.
  void beside(double cost) { beside_ = cost; }

  bool measured() const { return measured_ > 0; }
  double predicted_cost() const;
  // From one version's beginning to the next's, if costs stay as predicted and nothing fails.
  double interval() const;
  double due() const;
  // One line for people: the interval and what determines it, or the pause after failed attempts.
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
  std::array<double, 3> costs_{};  // of the last versions; a ring
  int measured_ = 0;               // number of costs measured in total
  double spent_ = 0;               // all costs, including failed attempts
  double beside_ = 0;              // the cost of what is not a version
  double last_begin_;              // of the last version; initially the start
  double last_end_;                // of the last version or attempt
  int failures_ = 0;               // failed attempts since the last version
};

// Daly's estimate of the optimum time from the end of a version to the beginning of the next, for a version
// of `cost` and a failure every `mtbf` on average (J. T. Daly, "A higher order estimate of the optimum
// checkpoint interval for restart dumps", Future Generation Computer Systems 22 (2006), 303-312). Its first
// term is Young's sqrt(2 cost mtbf) (J. W. Young, Communications of the ACM 17 (1974), 530-531).
double optimum_interval(double cost, double mtbf);

}  // namespace cropdl::coord
