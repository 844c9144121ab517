// NVIDIA's runtime as nvcc links it by default: part of the program's own code, so that none of its calls
// goes through a library. The entries of its functions, which the symbols of the program's file give, become
// jumps to those of our shim libcudart.so.13, before any code of the object runs. LH, LH FS base; a thread of
// the program that is in ld.so.
#pragma once

#include "interpose/libraries/library.h"

namespace cropdl::cuda {

// START: where our shims are.
void prepare_static_runtimes(const launching::Boot& boot);

// Of an object that was just loaded. An error is a line for people: the program cannot run.
Status take_over_static_runtime(const libraries::LoadedObject& object);

}  // namespace cropdl::cuda
