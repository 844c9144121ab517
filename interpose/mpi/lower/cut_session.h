// The library's state of a cut: from the beginning of a drain until the program continues. Attempts follow
// one another; each begins with MessageDrain::begin() or EarlyDrain::begin().
#pragma once

#include "interpose/mpi/lower/early_drain.h"
#include "interpose/mpi/lower/message_drain.h"
#include "interpose/mpi/lower/parked_receives.h"

namespace cropdl::mpi {

struct CutSession {
  MessageDrain drain;
  EarlyDrain early{drain};
  ParkedReceives parked;
};

CutSession& cut_session();  // the library's (library.cpp)

}  // namespace cropdl::mpi
