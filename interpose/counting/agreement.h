// The agent's side of the hold on what is counted (agreement.cpp), one for all libraries of the process. LH,
// the agent's thread unless said otherwise.
#pragma once

#include <span>
#include <vector>

#include "coord/local_rank.h"
#include "interpose/seam/layout.h"

namespace cropdl::counting {

// What counts: the libraries of this process. Lives as long as a hold or a look.
class Source {
 public:
  // All records; of two with one identity (members of one process) the larger count first. One that comes
  // into being meanwhile is there before the call that makes it ends. `target`: what a record must come to,
  // as far as is known; 0: nothing. Of those on which nothing has begun others need not be named.
  virtual void add_counts(std::vector<coord::CollectiveCount>& counts,
                          uint64_t (*target)(uint64_t identity)) const = 0;
  // A thread of the program that is held in a call of that library, LH FS base: moves what other ranks may
  // wait for.
  virtual void drive(seam::LibraryNumber held_in) const = 0;

 protected:
  ~Source() = default;
};

// From hold() on a call that is counted begins only up to the targets (none known: not at all); the thread
// that is held waits inside the LH, drives the source, and leaves when control()->attention asks it to stop.
// release() ends it. Idempotent.
void hold(const Source& source);
void set_targets(std::span<const coord::CollectiveCount> targets);
void release();

// What has begun, and what threads are inside of, or held before; takes the place of what `status` says of
// that.
void fill(const Source& source, coord::RankStatus& status);

}  // namespace cropdl::counting
