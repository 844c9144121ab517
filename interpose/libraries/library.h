// The interface of a library in the lower half to the rest of it, without the library's headers. The program
// calls it through a table. MPI is one (interpose/mpi/lower). libraries.h has those of this process.
//
// Each function names its caller:
//   AGENT  the agent's thread; makes no call of the library
//   MAIN   the main thread while it is parked and serves the LH (LH FS base, outside any call of the program)
//   START  the main thread, before any code of the program runs in this process
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

// A program or shared library that the program's ld.so has loaded.
struct LoadedObject {
  std::string file;      // the mapped file
  uint64_t base = 0;     // added to the file's addresses
  bool program = false;  // the program, not a library
};

class Library {
 public:
  virtual ~Library() = default;

  // --- The seam. START.
  virtual seam::LibraryNumber number() = 0;     // its place in the persistent heap
  virtual const char* implementation() = 0;     // where one seam has several: "openmpi", "mpich"
  virtual std::string version() { return ""; }  // of the implementation, one line for users
  struct Table {
    seam::LibraryNumber number;          // its place in the control page
    void* const* entries;                // indexed by the append-only function index
    uint32_t functions;                  // a restart needs at least as many: saved code may call them all
    const char* name;                    // "openmpi", "cudart"
    const char* const* names = nullptr;  // of the functions; null: no names
  };
  virtual std::vector<Table> seam_tables() = 0;  // one, or those of a family that shares objects
  // Functions that the program used and other implementations lack.
  virtual std::vector<std::string> functions_of_this_implementation_only() { return {}; }

  // --- Whether the program uses the library: a restart needs it. Images name the libraries in use. MAIN.
  virtual bool used() { return true; }

  // --- Receives the program's start options. Before the program's first code, and before restart(). START.
  virtual void prepare(const launching::Boot&) {}

  // --- Whether the library follows loaded objects. START, and before each look_at().
  virtual bool follows_objects() { return false; }
  // Receives each loaded object, mapped, before any of its code runs; once, over all restarts. An error ends
  // the program with that line. Any thread of the program, inside ld.so, or START.
  virtual Status look_at(const LoadedObject&) { return {}; }

  // --- Without image: creates the library's data in the persistent heap (formatted, its roots zero). START.
  virtual Status format() { return {}; }

  // --- A restored process: the heap (checked) has the image's contents. Initializes the library as far as
  // the program had, and makes its objects again from their recipes, and its pending operations. START. May
  // be collective over all ranks: every rank restarts its libraries in the order of their numbers.
  virtual Status restart() = 0;

  // --- After restart() of all libraries on all ranks. START; on every rank, even one that does not use it.
  // Returns this rank's contribution, a short text, which all ranks get.
  virtual std::string told_at_restart() { return ""; }
  // Makes the remaining objects again from all contributions, indexed by rank. May be collective over all
  // ranks. The others do not wait for a rank that fails: a failure ends the job.
  virtual Status finish_restart(std::span<const std::string>) { return {}; }

  // --- Whether the program has initialized and not finalized it: only then it needs a drain. Any thread.
  virtual bool active() = 0;

  // --- The number of recipes in the heap, from which a restart makes objects and their state again. Images
  // hold the number; a restart that counts a different number is refused. MAIN, and START after restart().
  virtual uint32_t recipes() { return 0; }

  // --- Whether the program has ever been connected with other ranks by the library. Any thread.
  virtual bool met_others() { return true; }

  // --- The process's rank and the number of ranks, if the library knows them and is active. Any thread.
  struct Place {
    int rank, ranks;
  };
  virtual std::optional<Place> place() { return std::nullopt; }

  // --- Agreement. AGENT. Adds the library's collective counts (interpose/counting), as counting::Source
  // requires. All libraries share one space of identities, with the library's number in bits 56 to 62.
  virtual void add_counts(std::vector<coord::CollectiveCount>& counts,
                          uint64_t (*target)(uint64_t identity)) = 0;
  // Adds the library's part of the status: progress (message counts), and a refusal if it has none yet.
  virtual void fill_status(coord::RankStatus& status) = 0;
  // Point-to-point messages sent since the program's start, per world rank. At most one library counts them.
  virtual std::vector<coord::PeerCount> sent() { return {}; }

  // --- "" or why it cannot be saved ("MPI_Win_create: a window is alive": function, reason). AGENT or MAIN.
  virtual std::string refusal() = 0;

  // --- The early drain: some threads of this rank cannot stop before other ranks are drained (docs/cut.md,
  // "Sends of threads that cross"). The AGENT begins it when each thread is parked, or is inside a call after
  // which it parks (ThreadRecord::sending). AGENT or MAIN ends it; then it no longer calls the library.
  virtual bool drains_early() { return false; }  // AGENT
  virtual void begin_early_drain() {}
  virtual std::string early_drain_trouble() { return ""; }  // AGENT. Why it cannot receive a message, or ""
  virtual void end_early_drain() {}

  // --- Why threads that still run, although a stop was requested at the given time (monotonic_us), will not
  // park soon, or "": they are inside calls whose waits a stop cannot end. AGENT.
  virtual std::string stop_trouble(int64_t) { return ""; }

  // --- While the rank is stopped. MAIN.
  // Advances operations that other ranks may wait for. Called often, and only while active(). Throws nothing.
  virtual void progress() {}
  // The same, called by a thread of the program that is held before a counted call of this library (true)
  // or of another library. LH FS base; other threads may be in this library.
  virtual void drive(bool) {}
  // `expected`: number of messages sent to this rank, per sender.
  virtual void begin_drain(std::span<const coord::PeerCount> expected) = 0;
  // Never blocks. True: no operation is in progress, and all expected messages are here.
  virtual bool drain_step() = 0;
  virtual std::string drain_trouble() = 0;  // AGENT or MAIN. Why the drain cannot succeed, or ""
  // After the drain: afterwards only the heap holds pending operations. A failure abandons the checkpoint;
  // the library still knows then which operations are pending where.
  virtual Status quiesce() = 0;
  // After quiesce(), failed or not (it may have thrown, or not been called after another library's threw), if
  // this process continues: starts the pending operations again. Throws nothing, and needs no memory: lack of
  // it may be why the checkpoint failed.
  virtual void resume() = 0;

  // --- Saves data that the library holds for the program outside the heap, as regions of its own kinds.
  // After quiesce() and after the program's memory is saved: nothing in the heap may change any more. MAIN.
  virtual Status save_contents(restart::ChunkSink&) { return {}; }
  virtual uint64_t content_bytes() { return 0; }  // their approximate size, for messages
  virtual uint64_t memory_in_use() { return 0; }  // the same while the program runs. AGENT
  virtual std::string devices() { return ""; }    // that hold the data, for users. MAIN
  // Loads the data into the objects that restart() has made, after restart() of all libraries. START.
  virtual Status load_contents(const restart::ImageReader&) { return {}; }

  // --- The process ends intentionally right after this call, in the middle of the program. Informs the
  // launcher, so that it does not report a crash. The program is stopped and does not resume. MAIN.
  virtual void announce_end() {}
};

}  // namespace cropdl::libraries
