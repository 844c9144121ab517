// Tracks the program's iterations: reads the token ring, and says at which counts the next iteration ends
// (docs/boundaries.md). LH, agent's thread; save and restore by the main thread while the agent waits.
#pragma once

#include <array>
#include <map>
#include <vector>

#include "coord/local_rank.h"
#include "interpose/boundaries/period_finder.h"

namespace cropdl::boundaries {

// A collective of an iteration, from its token.
struct Call {
  uint64_t call = 0, identity = 0, caller = 0, outer = 0;
  bool operator==(const Call&) const = default;
};

class Tracker {
 public:
  static constexpr size_t kCalls = 256;  // longest iteration remembered call by call

  // Reads the tokens written since. `now` is CLOCK_MONOTONIC, us. Returns the time of the next look.
  int64_t look(int64_t now);

  // Where the current iteration ends, as of the last look; empty if no period is known.
  coord::NextBoundary next_boundary() const;

  uint64_t iterations() const { return finder_.iterations(); }
  int64_t iteration_us() const { return iteration_us_; }  // a recent iteration's time; 0: unknown
  PeriodFinder::Place place() const { return finder_.place(); }
  // The calls of one iteration of place()'s loop, in order. Empty if unknown or too many.
  std::vector<Call> iteration() const;
  // `iteration`: from the former run.
  void resume(const PeriodFinder::Place& place, std::vector<Call> iteration = {});

 private:
  struct Count {
    uint64_t at_boundary = 0;  // begun when the last iteration ended
    uint64_t every = 0;        // begun in one iteration
    uint64_t now = 0;          // begun at the last token
    uint32_t quiet = 0;        // iterations without a call
  };
  void count(uint64_t identity, uint64_t begun);
  void take(const Call& call, uint64_t begun, Symbol symbol);
  void lose(uint64_t up_to);
  void tear();  // tokens were lost, up to the one that is read next
  void count_what_was_lost(const Count& count);
  bool counts_agree() const;
  void end_iteration();
  void note_iteration();
  void measure(int64_t now);
  int64_t next_pause() const;

  PeriodFinder finder_;
  uint64_t read_ = 0;                 // tokens read
  std::map<uint64_t, Count> counts_;  // by the communicator's identity
  std::array<Call, kCalls> taken_{};  // the last calls, a ring
  uint64_t taken_count_ = 0;          // calls since the last gap
  struct Iteration {
    uint64_t exact = 0;  // Pattern::exact; it changes if the start of iterations moves
    std::vector<Call> calls;
  };
  std::map<uint32_t, Iteration> iteration_of_;  // by Pattern::age
  int64_t measured_at_ = 0;                     // us, with the iterations then
  uint64_t measured_iterations_ = 0;
  std::array<int64_t, 3> lately_{};  // us, of the last iterations
  int64_t iteration_us_ = 0;
  // Tokens were lost, and no end of an iteration was confirmed since.
  bool torn_ = false;
  uint64_t refused_ = 0;   // ends of iterations that the counts contradicted since
  int64_t pause_ = 0;      // us between looks
  int64_t next_look_ = 0;  // when the pause ends
  uint64_t came_ = 0;      // tokens since it began
};

}  // namespace cropdl::boundaries
