// Kernels and variables that the program's own code has registered, read from the recipes of the
// registrations. LH, LH FS base, any thread, under one_abi::family_lock.
#pragma once

#include "interpose/cuda/lower/real.h"
#include "interpose/gen/cudart/undeclared.h"
#include "interpose/one_abi/state.h"

namespace cropdl::cuda {

struct RegisteredSymbol {
  uint64_t code;     // handle of its fat binary
  const void* host;  // a kernel's stub, or the host variable
  const char* name;  // in the code; may be null
  bool variable;
};

// In the order of registration.
template <class Visit>
void each_registered_symbol(Visit visit) {
  for (const handles::Handle h : one_abi::tables->in_order(one_abi::kStateRecord)) {
    const handles::Slot& slot = *one_abi::tables->slot(h);
    const bool variable = slot.maker == one_abi::maker_of(kCudart, seam::cudart::kFn___cudaRegisterVar);
    if (slot.state != handles::kLive || !slot.recipe ||
        (!variable && slot.maker != one_abi::maker_of(kCudart, seam::cudart::kFn___cudaRegisterFunction)))
      continue;
    handles::RecipeReader from = one_abi::arguments_of(slot);
    RegisteredSymbol one{};
    one.variable = variable;
    one.code = from.value<uint64_t>();
    one.host = from.value<const void*>();
    (void)from.value<const char*>();  // the device's address, or name
    one.name = from.value<const char*>();
    visit(one);
  }
}

}  // namespace cropdl::cuda
