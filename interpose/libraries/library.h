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
#include "interpose/launch/boot.h"
#include "interpose/seam/layout.h"
#include "restart/image.h"

namespace cropdl::libraries {

// A program, or a shared library, that the program's ld.so has loaded.
struct LoadedObject {
  std::string file;      // that is mapped
  uint64_t base = 0;     // added to the file's addresses
  bool program = false;  // not a library
};

class Library {
 public:
  virtual ~Library() = default;

  // --- The seam. START.
  virtual seam::LibraryNumber number() = 0;  // its place in the persistent heap
  virtual const char* implementation() = 0;  // of several with one seam: "openmpi", "mpich"
  virtual std::string version() = 0;         // of the implementation, one line for people
  struct Table {
    seam::LibraryNumber number;          // its place in the control page
    void* const* entries;                // indexed by the append-only function index
    uint32_t functions;                  // what is saved may call as many wherever it goes on
    const char* name;                    // "openmpi", "cudart"
    const char* const* names = nullptr;  // of the functions; null: they have none
  };
  virtual std::vector<Table> seam_tables() = 0;  // one, or those of a family whose objects are shared
  virtual std::vector<std::string> functions_of_this_implementation_only() = 0;  // that the program used

  // --- Whether it is at work and a restart needs it: images name those that are. MAIN.
  virtual bool used() { return true; }

  // --- How the program is, or was, started. Before its first code, and before restart(). START.
  virtual void prepare(const launching::Boot&) {}

  // --- Whether it wants to know what is loaded, and each object that is: mapped, and not a line of its code
  // has run. Any thread of the program, which is in ld.so, or START; once, over all restarts. An error ends
  // the program with that line. START for the first.
  virtual bool follows_objects() { return false; }
  virtual Status look_at(const LoadedObject&) { return {}; }

  // --- A fresh process: lays out what the library keeps in the persistent heap (formatted, its roots zero).
  // START, and only if there is no image.
  virtual Status format() = 0;

  // --- A restored process: the heap (checked) holds what the image held. Begins the library as far as the
  // program had, re-makes its objects from their recipes, and what was pending. START. May be collective over
  // all ranks: every one restarts its libraries in the order of their numbers.
  virtual Status restart() = 0;

  // --- Then, when all libraries of all ranks are there: what this rank tells the others (a short text), and
  // what is made again with what each rank has told, by rank. START; called on every rank, whatever it uses.
  // The second may be collective over all ranks, which do not wait for one that fails: it ends the job.
  virtual std::string told_at_restart() { return ""; }
  virtual Status finish_restart(std::span<const std::string>) { return {}; }

  // --- The program has begun it and not ended it: only then is there something to drain. Any thread.
  virtual bool active() = 0;

  // --- How many recipes the heap has, by which a restart makes its objects and their state again. Images
  // hold the number, and a restart that finds another one is refused. MAIN, and START after restart().
  virtual uint32_t recipes() { return 0; }

  // --- Which rank of how many the process is to the library, if it knows that by itself and is active. Any
  // thread.
  struct Place {
    int rank, ranks;
  };
  virtual std::optional<Place> place() { return std::nullopt; }

  // --- Agreement. AGENT. What the library counts (interpose/counting), as counting::Source says, by
  // identities of which all libraries share one space, with the library's number in bits 56 to 62.
  virtual void add_counts(std::vector<coord::CollectiveCount>& counts,
                          uint64_t (*target)(uint64_t identity)) = 0;
  // Adds its messages to what shows progress; its refusal, if there is none yet.
  virtual void fill_status(coord::RankStatus& status) = 0;
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

  // --- Why threads that run although a stop has wanted them since then (monotonic_us) will not park soon, or
  // "": they are inside calls that wait for what they are not told of. AGENT
  virtual std::string stop_trouble(int64_t) { return ""; }

  // --- While the rank is stopped. MAIN.
  // Moves what others may wait for; often, and only while active().
  virtual void progress() = 0;
  // The same by a thread of the program that is held before a call which is counted, of this library
  // (`inside`) or of another one, LH FS base; other threads may be in this library.
  virtual void drive(bool inside) = 0;
  virtual void begin_drain(
      std::span<const coord::PeerCount> expected) = 0;  // messages sent to this rank, per sender
  virtual bool drain_step() = 0;            // never blocks; true: nothing is under way, all expected is here
  virtual std::string drain_trouble() = 0;  // AGENT or MAIN. Why the drain can not succeed, or ""
  // After the drain: what is left pending is in the heap alone. A failure gives the checkpoint up; what is
  // pending where is then known still.
  virtual Status quiesce() = 0;
  virtual void resume() = 0;  // after quiesce(), failed or not, when this process goes on: pending again

  // --- What the library holds elsewhere for the program, as regions of kinds of its own. After quiesce() and
  // after the program's memory: nothing in the heap may change any more. MAIN.
  virtual Status save_contents(restart::ChunkSink&) { return {}; }
  virtual uint64_t content_bytes() { return 0; }  // about how many: for messages
  virtual uint64_t memory_in_use() { return 0; }  // likewise, while the program runs. AGENT
  virtual std::string devices() { return ""; }    // that hold them, for people. MAIN
  // Back into what restart() has made, of all libraries. START.
  virtual Status load_contents(const restart::ImageReader&) { return {}; }

  // --- The process ends right behind this, in the middle of its program, and that is meant: what a launcher
  // has to know so that it takes it for no crash. The program is stopped, for good. MAIN
  virtual void announce_end() {}
};

}  // namespace cropdl::libraries
