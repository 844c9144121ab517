// NVIDIA's static runtime, nvcc's default: part of the program's own code, so its calls reach no library. Its
// functions are found by the symbols of the program's file or, in a stripped file, by their code. Their
// entries become jumps to our shim libcudart.so.13 before any code of the object runs. LH, LH FS base; a
// thread of the program inside ld.so.
#pragma once

#include "interpose/libraries/library.h"

namespace cropdl::cuda {

// START: `boot` says where our shims are.
void prepare_static_runtimes(const launching::Boot& boot);

// For an object that was just loaded. An error is a line for people: the program cannot run.
Status take_over_static_runtime(const libraries::LoadedObject& object);

}  // namespace cropdl::cuda
