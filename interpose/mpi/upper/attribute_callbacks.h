// Calls the program's copy and delete functions of an attribute, without a lock. UH, any thread.
#pragma once

#include "interpose/mpi/upper/keyvals.h"

namespace cropdl::shim {

// Return the program's error code.
int run_copy(const Keyval& k, int keyval, Vid from, const Attribute& a, int64_t* out, int* flag);
int run_remove(const Keyval& k, int keyval, Vid from, const Attribute& a);

}  // namespace cropdl::shim
