// Device variables that no registration tells of: those of modules and libraries that the program loaded, and
// statics within kernels of its own code. Their names are read from the code, so all are saved, whether or
// not the program ever asked for one. LH, LH FS base; the main thread while the program is stopped (MAIN) or
// not yet there (START).
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstddef>
#include <string>
#include <vector>

#include "base/result.h"

namespace cropdl::cuda {

struct CodeVariable {
  std::string name;  // the same in every run
  CUdeviceptr address;
  size_t size;
  int device;
};
// MAIN at a cut; START when all code is there again: the same names, with this run's addresses. The error
// names one that cannot be found.
Result<std::vector<CodeVariable>> variables_of_code();

Error variable_lost(const std::string& name, int device, CUresult why);
Error context_ended(int device);

// What the runtime says where it has no code for the device, or none that the device can run: no kernel of
// such code has ever run.
bool means_no_code(cudaError_t error);

// The modules, libraries and registered code that have any, as words. Reads all of it, once in a run.
std::vector<uint64_t> code_with_variables();

// Why what the code keeps on the device cannot be saved, or "". While the program is stopped: the code of its
// own is read where it lies.
std::string code_refusal();

}  // namespace cropdl::cuda
