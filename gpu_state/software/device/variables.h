// A module's variables: their placement and initial values.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "gpu_state/software/ptx/module.h"

namespace cropdl::device {

// The location of a module's variable.
struct VariablePlace {
  CUdeviceptr address = 0;
  uint64_t size = 0;
  bool is_managed = false;
  bool is_borrowed = false;  // the library's, which releases it
};
using VariablePlaces = std::map<std::string, VariablePlace>;

// The variables that need memory: .global and .const, of the module and of its functions' bodies.
std::vector<const ptx::Variable*> placed_variables(const ptx::Module& module);

// Place the variables that are not in `places` yet, managed ones in managed memory. After an error, variables
// that were placed stay in `places`: CUDA_ERROR_OUT_OF_MEMORY.
CUresult place_variables(const ptx::Module& module, CUcontext context, VariablePlaces* places);
CUresult place_managed(const ptx::Module& module, VariablePlaces* places);
void give_back(const VariablePlaces& places, CUcontext context);

// Writes the initial values; the rest of each variable is 0. `address_of`: addresses of variables and
// functions. The error names variable and line.
Status initialise(const ptx::Variable& variable, CUdeviceptr at,
                  const std::function<std::optional<uint64_t>(const std::string& name)>& address_of);

}  // namespace cropdl::device
