// The agent's side of holding counted calls (agreement.cpp), once for all libraries of the process. LH,
// agent's thread unless said otherwise.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "coord/local_rank.h"
#include "interpose/seam/layout.h"

namespace cropdl::counting {

// The libraries of this process that count. Must outlive the hold, and any fill().
class Source {
 public:
  // Adds the counts of all records. Of two records with one identity (two members in one process), the larger
  // count comes first. A new record is listed before the call that makes it ends. `target` returns a record's
  // known target, or 0. A record without target on which nothing has begun may be left out.
  virtual void add_counts(std::vector<coord::CollectiveCount>& counts,
                          uint64_t (*target)(uint64_t identity)) const = 0;
  // A thread of the program held in a call of `held_in`, LH FS base: progresses what other ranks may await.
  virtual void drive(seam::LibraryNumber held_in) const = 0;

 protected:
  ~Source() = default;
};

// From hold() on, a counted call begins only up to its target; without one, not at all. A held thread waits
// inside the LH, drives the source, and leaves when control()->attention asks it to stop. hold() begins anew
// without targets: counts reported next must not rise by old ones. release() ends it, however often begun.
void hold(const Source& source);
void set_targets(std::span<const coord::CollectiveCount> targets);
void release();
// During a hold, a thread of the program writes to this eventfd when it comes to be held and when it begins
// the last call of a target: the agent should look soon. -1: none. START; the thread that ends the process.
void set_agent_event(int descriptor);
int64_t held_since();  // when the present hold began, or began anew (monotonic_us); 0: there is none
int64_t waited();      // for how long (us) since then at least one thread of the program was held

// A full barrier on all threads, so that frequent paths need none: stores before it are visible after it.
void order_all_threads();

// Replaces in `status` the counts, and the calls that threads are inside of or held before.
void fill(const Source& source, coord::RankStatus& status);

}  // namespace cropdl::counting
