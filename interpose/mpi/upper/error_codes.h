// Texts and numbers of error codes, for error handlers and attributes. UH, any thread.
#pragma once

#include "interpose/mpi/upper/shim.h"

namespace cropdl::shim {

// At most MPI_MAX_ERROR_STRING - 1 characters; an unknown code has a text, too.
void error_text(int code, char* to, int* length);
int last_used_code();

}  // namespace cropdl::shim
