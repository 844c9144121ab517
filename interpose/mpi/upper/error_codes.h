// Error classes and codes of the program's own MPI and their texts, with those that the program added. UH,
// any thread.
#pragma once

#include "interpose/mpi/upper/shim.h"

namespace cropdl::shim {

bool is_error_code(int code);  // Open MPI's functions reject others
bool is_error_class(int error_class);
int error_class_of(int code);
// At most MPI_MAX_ERROR_STRING - 1 characters; an unknown code has a text, too.
void error_text(int code, char* to, int* length);
int last_used_code();

// Return the new number; 0 if none is left, or there is no memory.
int add_error_class();
int add_error_code(int error_class);
// Takes `text`, from malloc; nullptr removes the text. Returns false, with nothing taken, unless the program
// added the code.
bool set_error_text(int code, char* text);
#if defined(CROPDL_ABI_MPICH)
bool delete_error_class(int error_class);
bool delete_error_code(int code);
#endif

}  // namespace cropdl::shim
