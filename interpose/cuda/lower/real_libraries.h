// The real libraries: NVIDIA's, or the software device's (docs/software-gpu.md). Found at run time: a build
// needs only their headers, and a program without CUDA loads none of them. LH, LH FS base. open_real(): any
// thread that holds no lock of ours, since constructors run; the others as stated.
#pragma once

#include <string>
#include <vector>

#include "interpose/launch/boot.h"

namespace cropdl::cuda {

// START, before any library is opened: chooses NVIDIA's or the software device's; stores where ours are.
void choose_real_libraries(const launching::Boot& boot);

inline constexpr const char* kDriverName = "libcuda.so.1";

struct RealLibrary {
  std::string soname;   // the shim's name: "libcudart.so.13"
  std::string path;     // of the loaded file
  std::string version;  // from the file name behind the links: "13.0.96"; "": unknown
  bool software = false;
};

// START of a restart: search each of these at its own path first.
void prefer_real_libraries(std::vector<RealLibrary> as_before);

// Returns dlopen's handle; the first call loads the library. Null: not available; the reason is printed once,
// as one line on standard error.
// Search order: the path in an image; where the program's ld.so found it, or would; ld.so's search for this
// process; CUDA_HOME, CUDA_PATH and /usr/local/cuda; beside the others. With --software-gpu only among the
// software device's libraries; with --software-nccl NCCL is ours.
void* open_real(const char* soname);

// Why the library is not available, or ""; prints nothing.
std::string why_not_real(const char* soname);

// Whether the program would find a driver here: software devices, or libcuda.so.1. Loads it.
bool has_driver();

// Folders that may hold a toolkit's libraries, existing or not.
std::vector<std::string> toolkit_folders();

// The open libraries, for the image.
std::vector<RealLibrary> real_libraries();

}  // namespace cropdl::cuda
