// Messages that the program left on a communicator that it has freed. They are received and dropped, because
// a drain waits for every message that was sent. LH, LH FS base, under the lock of the freed communicators.
#pragma once

#include <memory>

#include "interpose/mpi/lower/state.h"

namespace cropdl::mpi {

// What is left on a communicator: nothing, a message that is being received, or one that stays for now.
enum class Left { kNone, kBusy, kKept };

class LeftMessages {
 public:
  // Drops the messages that have arrived on the communicator. Never blocks. While messages are drained it
  // also tells the drain why one cannot be dropped.
  Left drop(CommRecord* record, MPI_Comm comm, bool draining);
  // Messages found so far; one that stays counts each time.
  uint64_t found() const { return found_; }

 private:
  Left begin_to_drop(CommRecord* record, MPI_Comm comm, bool draining);

  MPI_Request request_ = MPI_REQUEST_NULL;  // receives a message
  int source_ = 0, tag_ = 0;
  std::unique_ptr<char[]> bytes_;
  bool receivable_ = true;  // false once no persistent receive is left for the communicator
  uint64_t found_ = 0;
};

}  // namespace cropdl::mpi
