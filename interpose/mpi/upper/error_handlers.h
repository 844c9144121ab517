// Error handlers and error codes for the other files of the shim. UH, any thread.
#pragma once

#include "interpose/mpi/upper/objects.h"

namespace cropdl::shim {

// Runs `handler` for the program's error code `code` on the object `on`. Does not return if it is fatal.
int invoke_errhandler(Vid handler, Vid on, int code, const char* function);
// The same with the error handler that `object` has. (Objects without one: MPI_COMM_WORLD's.)
int invoke_errhandler_of(Vid object, int code, const char* function);
void set_errhandler(Vid object, Vid handler);
// Returns the null handle when no index is left.
Vid make_errhandler(Kind kind, void (*function)(), Language language);

// --- error_codes.cpp
// At most MPI_MAX_ERROR_STRING - 1 characters; an unknown code has a text, too.
void error_text(int code, char* to, int* length);
int last_used_code();

}  // namespace cropdl::shim
