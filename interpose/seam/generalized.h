// What the halves know of a generalized request: the shim's record of it, of which the lower half reads the
// first word only.
#pragma once

#include "interpose/seam/mpi_abi.h"

namespace cropdl::seam {

enum GeneralizedCall : int { kQueryGeneralized, kFreeGeneralized, kCancelGeneralized };

struct GeneralizedCallbacks {
  // In the upper half: calls the program's function. Its error code is the program's.
  int (*call)(GeneralizedCallbacks* of, int what, Status* status, int complete);
};

}  // namespace cropdl::seam
