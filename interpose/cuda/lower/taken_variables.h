// Addresses of device variables that the program has got: they must be the same after a restart, since the
// program may have stored them anywhere. Of variables of modules and libraries, CropDL knows only these and
// those of variables.h. LH, LH FS base; MAIN or START, unless stated otherwise.
#pragma once

#include <map>

#include "interpose/cuda/lower/memory.h"
#include "interpose/cuda/lower/registration.h"

namespace cropdl::cuda {

// For the runtime, too, the device is that of the current context (OnDevice).
cudaError_t find_symbol(const void* symbol, CUdeviceptr* address, size_t* size);

// The same in every run: address and name belong to the program.
std::string variable_name(const char* name, uint64_t symbol);
std::string name_of(const TakenVariable& one);
bool is_alive(const TakenVariable& one);

using ManagedBySlot = std::map<uint64_t, RegisteredSymbol>;
ManagedBySlot managed_by_slot();
CUresult find_taken(const TakenVariable& one, const ManagedBySlot& managed, CUdeviceptr* address,
                    size_t* size);
// False: no memory for the record. Any thread.
bool note_taken(uint64_t symbol, TakenVariable::Kind kind, const char* name, CUdeviceptr address, int device);
Status compare_taken_variables();

// Forget the addresses given to the program: of variables of registered code that is being unregistered; of
// modules and libraries that it has unloaded, before their handles are reused. A thread of the program.
void forget_variables_of(uint64_t registered_code);
void forget_variables_of_unloaded_code();

}  // namespace cropdl::cuda
