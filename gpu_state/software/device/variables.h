// A module's variables: where they are put and what is in them at first.
#pragma once

#include <cuda.h>

#include <functional>
#include <optional>

#include "gpu_state/software/device/module.h"

namespace cropdl::device {

// The module's variables that need a place: .global and .const, of the module and of its functions' bodies.
std::vector<const ptx::Variable*> placed_variables(const ptx::Module& module);

// VariablePlaces what `places` does not have yet, managed ones in managed memory. What was placed stays in
// `places` also after an error: CUDA_ERROR_OUT_OF_MEMORY.
CUresult place_variables(const ptx::Module& module, CUcontext context, VariablePlaces* places);
CUresult place_managed(const ptx::Module& module, VariablePlaces* places);
void give_back(const VariablePlaces& places, CUcontext context);

// Writes the initial values; the rest of each variable is 0. `address_of` knows variables and functions. The
// error names variable and line.
Status initialise(const ptx::Variable& variable, CUdeviceptr at,
                  const std::function<std::optional<uint64_t>(const std::string& name)>& address_of);

}  // namespace cropdl::device
