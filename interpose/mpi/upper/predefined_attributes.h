// The attributes that MPI itself gives its objects (MPI_TAG_UB, MPI_WIN_BASE, ...). UH, any thread.
#pragma once

#include "interpose/mpi/upper/objects.h"

namespace cropdl::shim {

// Returns false if the keyval is not predefined. Else answers, or sets *error to the lower half's error.
bool get_predefined_attribute(Vid vid, int keyval, void** pointer, int64_t* number, int* flag, int* error);

}  // namespace cropdl::shim
