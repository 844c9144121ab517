// Kernels and variables that the program's own code has registered, read from the recipes of the
// registrations. LH, LH FS base, any thread, under rt::family_lock.
#pragma once

#include <vector>

#include "interpose/cuda/lower/real.h"
#include "interpose/gen/cudart/undeclared.h"
#include "interpose/one_abi/state.h"

namespace cropdl::cuda {

struct RegisteredSymbol {
  enum Kind { kKernel, kVariable, kManaged };
  Kind kind;
  uint64_t code;     // handle of its fat binary
  const void* host;  // a kernel's stub, the host variable, or the slot with a managed variable's address
  const char* name;  // in the code; may be null
  size_t size;       // of a managed variable

  uint64_t word() const { return reinterpret_cast<uint64_t>(host); }
  // The address that the runtime puts into a managed variable's slot when it loads the code; null until then.
  uint64_t managed_address() const { return *static_cast<const uint64_t*>(host); }
};

// In the order of registration.
template <class Visit>
void each_registered_symbol(Visit visit) {
  const uint32_t kernel = rt::maker_of(kCudart, seam::cudart::kFn___cudaRegisterFunction),
                 variable = rt::maker_of(kCudart, seam::cudart::kFn___cudaRegisterVar),
                 managed = rt::maker_of(kCudart, seam::cudart::kFn___cudaRegisterManagedVar);
  for (const handles::Handle h : rt::tables->in_order(rt::kStateRecord)) {
    const handles::Slot& slot = *rt::tables->slot(h);
    if (slot.state != handles::kLive || !slot.recipe ||
        (slot.maker != kernel && slot.maker != variable && slot.maker != managed))
      continue;
    handles::RecipeReader from = rt::arguments_of(slot);
    RegisteredSymbol one{};
    one.kind = slot.maker == kernel     ? RegisteredSymbol::kKernel
               : slot.maker == variable ? RegisteredSymbol::kVariable
                                        : RegisteredSymbol::kManaged;
    one.code = from.value<uint64_t>();
    one.host = from.value<const void*>();
    (void)from.value<const char*>();  // the device's address, or name
    one.name = from.value<const char*>();
    if (one.kind == RegisteredSymbol::kManaged) {
      (void)from.value<int>();
      one.size = from.value<size_t>();
    }
    visit(one);
  }
}

// Those of one kind. Takes the lock.
std::vector<RegisteredSymbol> registered_symbols(RegisteredSymbol::Kind kind);

}  // namespace cropdl::cuda
