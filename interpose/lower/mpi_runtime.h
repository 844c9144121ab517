// The MPI under a lower half, as the lower half's core sees it: one implementation per MPI (and none for
// programs without MPI), behind which no mpi.h is visible.
//
// Three kinds of caller, said at each function: the AGENT's thread (makes no MPI call), the MAIN thread while
// it is parked and serves the LH (LH FS base, outside any MPI call of the program), and START (the main
// thread, before any code of the program runs in this process).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "coord/local_rank.h"

namespace cropdl::lower {

class MpiRuntime {
 public:
  virtual ~MpiRuntime() = default;

  // --- The seam. START.
  virtual void* const* table() = 0;  // indexed by the append-only function index
  virtual unsigned functions() = 0;  // entries in it
  virtual const char* name() = 0;    // "openmpi", "mpich"
  virtual std::string library_version() = 0;

  // --- A fresh process: lays out the tables in the persistent heap, which the loader has mapped
  // (zero-filled). START, and only if there is no image.
  virtual Status format() = 0;

  // --- A restored process: the heap holds what the image held. Initialises the MPI at the level that the
  // program had asked for (if it was initialised and not finalised at the cut), re-makes its objects, checks
  // rank and size against the saved ones and re-posts pending receives. START. Collective over all ranks.
  virtual Status restart() = 0;

  // --- State of the MPI as the program sees it. Any thread.
  virtual bool initialized() = 0;  // MPI_Init was called and MPI_Finalize was not
  virtual bool finalized() = 0;
  virtual int rank() = 0;  // in MPI_COMM_WORLD; -1 before MPI_Init
  virtual int size() = 0;
  virtual std::vector<std::string>
  functions_of_this_mpi_only() = 0;  // used by the program, missing in the other MPI

  // --- Agreement. AGENT. From hold() on a collective begins only up to the targets (none known: not at all);
  // the thread that is held waits inside the LH, drives MPI progress, and leaves (kAgain) when
  // control()->attention asks it to stop. release() ends it. Idempotent.
  virtual void hold() = 0;
  virtual void set_targets(std::span<const coord::CollectiveCount> targets) = 0;
  virtual void release() = 0;
  virtual void fill_standing(
      coord::Standing& standing) = 0;                // counts, inside, held, progress and MPI's refusal
  virtual std::vector<coord::PeerCount> sent() = 0;  // point-to-point messages ever sent, per world rank
  virtual std::string refusal() = 0;  // AGENT or MAIN. "" or "MPI_Win_create: a window is alive", ...

  // --- While the rank is stopped. MAIN.
  virtual void progress() = 0;  // lets the MPI move its messages
  virtual void begin_drain(
      std::span<const coord::PeerCount> expected) = 0;  // messages sent to this rank, per sender
  virtual bool drain_step() = 0;  // never blocks; true: all expected messages are here, all sends complete
  virtual std::string drain_trouble() = 0;  // AGENT or MAIN. Why the drain can not succeed, or ""
  virtual void prepare_save() = 0;          // after the drain: no request is left in the MPI afterwards
  virtual void repost() = 0;  // after the cut, when this process goes on: pending receives again

  // --- MAIN, when the program ends without having called MPI_Finalize: nothing (as natively).
};

// Defined by the library cropdl_mpi_lower_<mpi> that the lower half is linked with.
MpiRuntime* make_mpi_runtime();

}  // namespace cropdl::lower
