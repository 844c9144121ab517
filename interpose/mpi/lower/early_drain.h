// Drains messages on a rank whose threads cannot stop: they are inside blocking sends to ranks whose
// receiving threads have stopped, perhaps likewise (docs/cut.md, "Sends of threads that cross"). A thread of
// the LH receives arrived messages beside them, which needs MPI_THREAD_MULTIPLE.
#pragma once

#include <condition_variable>
#include <mutex>

#include "interpose/mpi/lower/message_drain.h"

namespace cropdl::mpi {

class EarlyDrain {
 public:
  explicit EarlyDrain(MessageDrain& drain) : drain_(drain) {}

  // Starts the waiting thread, once, after MPI is initialised. If it cannot be created (a limit), nothing is
  // drained early. At the start, or the program's main thread.
  void start();

  // LH, agent's thread. Every thread of the program must be parked, or inside a blocking send after which it
  // parks (ThreadRecord::sending).
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

}  // namespace cropdl::mpi
