// The library's state of a cut: from the beginning of a drain until the program continues. Attempts follow
// one another; each begins with MessageDrain::begin() or EarlyDrain::begin().
#pragma once

#include <condition_variable>
#include <mutex>

#include "interpose/mpi/lower/message_drain.h"

namespace cropdl::mpi {

// Drains messages on a rank whose threads cannot stop: they are inside blocking sends to ranks whose
// receiving threads have stopped, perhaps likewise (docs/cut.md, "Sends of threads that cross"). A thread of
// the LH receives arrived messages beside them, which needs MPI_THREAD_MULTIPLE.
class EarlyDrain {
 public:
  explicit EarlyDrain(MessageDrain& drain) : drain_(drain) {}

  // Starts the waiting thread, once, after MPI is initialised. If it cannot be created (a limit), nothing is
  // drained early. At the start, or the program's main thread.
  void start();

  // LH, agent's thread. Each thread of the program is parked, or in a blocking send after which it parks.
  void begin();
  // Any thread. On return the thread is out of the MPI and touches nothing. Idempotent.
  void end();

 private:
  [[noreturn]] void run();

  MessageDrain& drain_;
  // The draining thread holds it during each step, so end() waits for the step's end.
  std::mutex step_;
  std::condition_variable wake_;
  bool wanted_ = false;  // under `step_`
  bool started_ = false;
};

// Pending receives at a cut: cancelled for the image, and posted again in their order. LH, LH FS base, the
// parked main thread, or before the program runs.
class ParkedReceives {
 public:
  // After the drain: cancels the pending receives, for post(). Returns a code of the MPI. On an error, the
  // failing one, begun by `maker`, is pending or complete with the error; others may be parked.
  int park(uint32_t* maker);
  // Posts the receives that park() has parked; one that cannot be posted completes with the error. Returns
  // the first error. Throws nothing and allocates nothing.
  int post();
  int post_those_of_image();  // at a restart

 private:
  void list(bool with_pending);

  // The receives that may be parked, in the order of posting, each with its serial number. Kept for post():
  // it follows a write that perhaps failed for lack of memory, and must not allocate.
  std::vector<std::pair<uint64_t, Vid>> at_cut_;
};

struct CutSession {
  MessageDrain drain;
  EarlyDrain early{drain};
  ParkedReceives parked;
};

CutSession& cut_session();  // the library's (library.cpp)

}  // namespace cropdl::mpi
