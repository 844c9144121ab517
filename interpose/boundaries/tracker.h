// Where this rank's program is in its iterations: reads the ring of tokens, and tells at which counts the
// next iteration ends (docs/boundaries.md). LH, the agent's thread; save and restore by the main thread while
// the agent waits for it.
#pragma once

#include <array>
#include <map>
#include <vector>

#include "coord/local_rank.h"
#include "interpose/boundaries/period_finder.h"

namespace cropdl::boundaries {

// A collective that an iteration makes, as its token has it.
struct Call {
  uint64_t call = 0, identity = 0, caller = 0;
  bool operator==(const Call&) const = default;
};

class Tracker {
 public:
  static constexpr size_t kCalls = 256;  // of an iteration that is remembered call by call

  // Reads what has been noted since. `now`: CLOCK_MONOTONIC, us. Returns when it wants to be called again.
  int64_t look(int64_t now);

  // Where the iteration under way ends, as of the last look; nothing if no period is known.
  coord::NextBoundary next_boundary() const;

  uint64_t iterations() const { return finder_.iterations(); }
  int64_t iteration_us() const { return iteration_us_; }  // lately; 0: not known
  PeriodFinder::Place place() const { return finder_.place(); }
  // The calls of an iteration of the loop that place() is in, in their order. Empty: not known, or too many.
  std::vector<Call> iteration() const;
  // `iteration`: the former run's.
  void resume(const PeriodFinder::Place& place, std::vector<Call> iteration = {});

 private:
  struct Count {
    uint64_t at_boundary = 0;  // begun, when the last iteration ended
    uint64_t every = 0;        // begun in it
    uint64_t now = 0;          // at the last token
    uint32_t quiet = 0;        // iterations since
  };
  void count(uint64_t identity, uint64_t begun);
  void take(const Call& call, uint64_t begun, Symbol symbol);
  void lose(uint64_t up_to);
  void count_what_was_lost(const Count& count);
  bool counts_agree() const;
  void end_iteration();
  void note_iteration();
  void measure(int64_t now);

  PeriodFinder finder_;
  uint64_t read_ = 0;                 // tokens of the ring
  std::map<uint64_t, Count> counts_;  // by the communicator's identity
  std::array<Call, kCalls> taken_{};  // the last ones, a ring,
  uint64_t taken_count_ = 0;          // since the last gap
  struct Iteration {
    uint64_t exact = 0;  // Pattern::exact: another one where iterations begin elsewhere since
    std::vector<Call> calls;
  };
  std::map<uint32_t, Iteration> iteration_of_;  // by Pattern::age
  int64_t measured_at_ = 0;                     // us, and the iterations then
  uint64_t measured_iterations_ = 0;
  std::array<int64_t, 3> lately_{};  // us, that an iteration took
  int64_t iteration_us_ = 0;
  bool torn_ = false;     // tokens were lost since the last iteration of which the end was seen
  uint64_t refused_ = 0;  // ends of iterations that the counts contradicted since
  int64_t pause_ = 0;     // us, between looks
};

}  // namespace cropdl::boundaries
