// Device variables that no registration names: those of modules and libraries that the program loaded, and
// static variables inside kernels of its own code. Their names are read from the code, so all are saved, even
// if never asked for. LH, LH FS base; the main thread, the program stopped (MAIN) or before it runs (START).
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstddef>
#include <string>
#include <vector>

#include "base/result.h"
#include "interpose/cuda/lower/real.h"

namespace cropdl::cuda {

struct CodeVariable {
  std::string name;  // the same in every run
  CUdeviceptr address;
  size_t size;
  int device;
};
// MAIN at a cut; START once all code is loaded again: the same names, with this run's addresses. The error
// names a variable that cannot be found.
Result<std::vector<CodeVariable>> variables_of_code();

Error variable_lost(const std::string& name, int device, CUresult why);
Error context_ended(int device);

// The runtime's errors for code that has nothing for the device, or nothing that the device can run. No
// kernel of such code has ever run.
bool means_no_code(cudaError_t error);

// Handles of the modules, libraries and registered code that have variables. Reads each code once a run.
std::vector<uint64_t> code_with_variables();

// What kernels take by malloc lives as long as the device's context, and so longer than their code.
// heaps_used_by: before code ends, the devices (one bit each) on which its kernels may have done that; with
// CodeOrder. heaps_used_by_image: the same for code without a recipe, when it is loaded. note_heaps: from now
// on checkpoints are refused, in the name of that function, until these devices are reset. note_ended_image:
// registered code has ended whose image stays; it is read at the next cut.
uint64_t heaps_used_by(uint64_t code);
uint64_t heaps_used_by_image(const void* image);
void note_heaps(uint64_t devices, Maker m);
void note_ended_image(const void* image);
void heap_has_ended(int device);

// "", or why the code's state on the device cannot be saved. The program is stopped: its memory is read.
std::string code_refusal();

}  // namespace cropdl::cuda
