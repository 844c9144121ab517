// The device's libraries that are called in this process: NVIDIA's, or the software device's
// (docs/software-gpu.md), found at run time, since a build needs their headers only and a program without
// CUDA loads none of them. LH, LH FS base. open_real: any thread, and not while it holds a lock of ours
// (constructors run); the others as they say.
#pragma once

#include <string>
#include <vector>

#include "interpose/launch/boot.h"

namespace cropdl::cuda {

// START, before anything is opened: which of the two, and where ours are.
void choose_real_libraries(const launching::Boot& boot);

struct RealLibrary {
  std::string soname;   // as the shim is called: "libcudart.so.13"
  std::string path;     // of the file that is loaded
  std::string version;  // by the name of the file behind its links: "13.0.96"; "": it does not say
  bool software = false;
};

// START of a restart: look for each of these at its own path first.
void prefer_real_libraries(std::vector<RealLibrary> as_before);

// The library as dlopen gives it, loaded by the first call; null: it cannot be had, which is said once, in
// one line, on standard error.
// Searched: where an image says it was; where the program's ld.so found it, or would; as ld.so searches for
// this process; CUDA_HOME, CUDA_PATH and /usr/local/cuda; beside the others. With --software-gpu only among
// the software device's.
void* open_real(const char* soname);

// Why it cannot be had, or "": for who wants to know without a line.
std::string why_not_real(const char* soname);

// Whether a program would find a device's driver here: software devices, or libcuda.so.1. Loads it.
bool has_driver();

// Where toolkits' libraries may be: folders, there or not.
std::vector<std::string> toolkit_folders();

// Those that are open, for the image.
std::vector<RealLibrary> real_libraries();

}  // namespace cropdl::cuda
