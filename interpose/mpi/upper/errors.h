// Error handlers for the other files of the shim. UH, any thread.
#pragma once

#include "interpose/mpi/upper/objects.h"

namespace cropdl::shim {

// Runs an error handler for an error with the program's code `code` on `on`; does not return if it is fatal.
int invoke_errhandler(Vid handler, Vid on, int code, const char* function);
void set_errhandler(Vid object, Vid handler);
// The null handle: there are too many.
Vid make_errhandler(Kind kind, void (*function)(), Language language);
int last_used_code();

MPI_Fint handle_to_fortran(Vid vid);  // fortran.cpp

}  // namespace cropdl::shim
