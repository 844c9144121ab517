// The shim's record of a generalized request. The lower half reads its first word only.
#pragma once

#include "interpose/seam/mpi_abi.h"

namespace cropdl::seam {

enum GeneralizedCall : int { kQueryGeneralized, kFreeGeneralized, kCancelGeneralized };

struct GeneralizedCallbacks {
  // In the upper half: calls the program's function. Returns the program's error code.
  int (*call)(GeneralizedCallbacks* of, int what, Status* status, int complete);
};

}  // namespace cropdl::seam
