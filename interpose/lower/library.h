// A library in the lower half that the program calls through a table, as the rest of the lower half sees it;
// no header of it is visible here. MPI is one (interpose/mpi/lower). libraries.h has those of this process.
//
// Three kinds of caller, said at each function: the AGENT's thread (makes no call of the library), the MAIN
// thread while it is parked and serves the LH (LH FS base, outside any call of the program), and START (the
// main thread, before any code of the program runs in this process).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "coord/local_rank.h"
#include "interpose/seam/layout.h"

namespace cropdl::lower {

class Library {
 public:
  virtual ~Library() = default;

  // --- The seam. START.
  virtual seam::LibraryNumber number() = 0;  // its place in the control page and in the persistent heap
  virtual const char* implementation() = 0;  // of several with one seam: "openmpi", "mpich"
  virtual std::string version() = 0;         // of the implementation, one line for people
  virtual void* const* table() = 0;          // indexed by the library's append-only function index
  virtual uint32_t functions() = 0;  // entries in it; what is saved may call as many wherever it goes on
  virtual std::vector<std::string> functions_of_this_implementation_only() = 0;  // that the program used

  // --- A fresh process: lays out what the library keeps in the persistent heap (formatted, its roots zero).
  // START, and only if there is no image.
  virtual Status format() = 0;

  // --- A restored process: the heap (checked) holds what the image held. Begins the library as far as the
  // program had, re-makes its objects from their recipes, and what was pending. START. May be collective over
  // all ranks: every one restarts its libraries in the order of their numbers.
  virtual Status restart() = 0;

  // --- The program has begun it and not ended it: only then is there something to drain. Any thread.
  virtual bool active() = 0;

  // --- Which rank of how many the process is to the library, if it knows that by itself and is active. Any
  // thread.
  struct Place {
    int rank, ranks;
  };
  virtual std::optional<Place> place() { return std::nullopt; }

  // --- Agreement. AGENT. From hold() on a collective begins only up to the targets (none known: not at all);
  // the thread that is held waits inside the LH, drives the library's progress, and leaves when
  // control()->attention asks it to stop. release() ends it. Idempotent. Communicators of all libraries share
  // one space of identities, with the library's number in bits 56 to 62.
  virtual void hold() = 0;
  virtual void set_targets(std::span<const coord::CollectiveCount> targets) = 0;
  virtual void release() = 0;
  // Adds what has begun and what it is inside of, or held before; its refusal, if there is none yet.
  virtual void fill_standing(coord::Standing& standing) = 0;
  // Point-to-point messages ever sent, per world rank. One library at most counts any.
  virtual std::vector<coord::PeerCount> sent() = 0;

  // --- Why it cannot be saved now, or "": the function, and what of it ("MPI_Win_create: a window is
  // alive"). AGENT or MAIN.
  virtual std::string refusal() = 0;

  // --- The drain of a rank some of whose threads cannot stop before others are drained (docs/cut.md,
  // "Sends of threads that cross"). Begun by the AGENT when each thread is parked, or inside a call from
  // which it goes on to park (ThreadRecord::sending); ended by AGENT or MAIN, after which nothing of it
  // touches the library.
  virtual bool drains_early() { return false; }  // AGENT
  virtual void begin_early_drain() {}
  virtual std::string early_drain_trouble() { return ""; }  // AGENT. Why it cannot take what has come, or ""
  virtual void end_early_drain() {}

  // --- While the rank is stopped. MAIN.
  virtual void progress() = 0;  // moves what others may wait for; often, and only while active()
  virtual void begin_drain(
      std::span<const coord::PeerCount> expected) = 0;  // messages sent to this rank, per sender
  virtual bool drain_step() = 0;            // never blocks; true: nothing is under way, all expected is here
  virtual std::string drain_trouble() = 0;  // AGENT or MAIN. Why the drain can not succeed, or ""
  // After the drain: what is left pending is in the heap alone. A failure gives the checkpoint up; what is
  // pending where is then known still.
  virtual Status quiesce() = 0;
  virtual void resume() = 0;  // after quiesce(), failed or not, when this process goes on: pending again
};

}  // namespace cropdl::lower
