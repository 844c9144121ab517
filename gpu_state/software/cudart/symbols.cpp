// Registration and lookup (symbols.h). nvcc's generated code calls the exports with two underscores; no
// public header of the toolkit declares them.
#include "gpu_state/software/cudart/symbols.h"

#include <atomic>
#include <cstdlib>
#include <deque>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "gpu_state/software/cudart/refused.h"
#include "gpu_state/software/cudart/runtime.h"

namespace cropdl::cudart {
namespace {

struct Managed {
  void** slot;  // where the host code keeps the variable's address
  std::string name;
};

// One call of __cudaRegisterFatBinary; the handle is this structure's address.
struct FatBinary {
  const void* wrapper = nullptr;  // __fatBinC_Wrapper_t, which the driver understands
  std::mutex mutex;               // held while it is loaded, once
  CUlibrary library = nullptr;
  std::vector<Managed> managed;
};

struct Kernel {
  FatBinary* binary;
  std::string name;
  CUkernel kernel = nullptr;
};

struct Variable {
  FatBinary* binary;
  std::string name;
  bool is_managed = false;
};

// Several fat binaries may register the same host address (a template's kernel in several objects): the first
// one counts, as in NVIDIA's runtime.
struct Registry {
  std::mutex mutex;
  std::list<FatBinary> binaries;
  std::unordered_map<const void*, std::deque<Kernel>> kernels;
  std::unordered_map<const void*, std::deque<Variable>> variables;
  // For functions and kernels that were looked up: the symbol used.
  std::unordered_map<const void*, const void*> symbols;
};

// Made by the program's first constructor that registers something; never destroyed.
Registry& registry() {
  static auto* made = new Registry;
  return *made;
}

// Host code identifies a managed variable by its address, which is in its slot, not by the slot's address.
CUresult fill_slots(FatBinary& binary, CUlibrary library) {
  for (const Managed& variable : binary.managed) {
    CUdeviceptr address = 0;
    size_t size = 0;
    const CUresult result = cuLibraryGetManaged(&address, &size, library, variable.name.c_str());
    if (result != CUDA_SUCCESS) return result;
    *variable.slot = as_pointer(address);
    const std::lock_guard lock(registry().mutex);
    registry().variables[as_pointer(address)].push_back({&binary, variable.name, true});
  }
  return CUDA_SUCCESS;
}

// When the process ends, nothing is returned to the driver: that would wait for running kernels, which a
// process end does not do. Exit handlers run in reverse order; nvcc's, which unregisters, was registered
// before the fat binary's first use, so this one runs earlier. It does not run when a plug-in is closed.
std::atomic<bool> is_ending{false};
void note_end() { is_ending = true; }

cudaError_t load(FatBinary& binary) {
  const std::lock_guard lock(binary.mutex);
  if (binary.library) return cudaSuccess;
  std::atexit(note_end);
  CUlibrary library = nullptr;
  CUresult result = cuLibraryLoadData(&library, binary.wrapper, nullptr, nullptr, 0, nullptr, nullptr, 0);
  if (result != CUDA_SUCCESS) return as_error(result);
  result = fill_slots(binary, library);
  if (result == CUDA_SUCCESS)
    binary.library = library;
  else
    cuLibraryUnload(library);
  return as_error(result);
}

// Entries keep their addresses until their fat binary is unregistered. (A program that unloads running code
// fails on a real device too.)
template <class Entry>
Entry* find(std::unordered_map<const void*, std::deque<Entry>>& map, const void* symbol) {
  const std::lock_guard lock(registry().mutex);
  const auto found = map.find(symbol);
  return found == map.end() || found->second.empty() ? nullptr : &found->second.front();
}

cudaError_t resolve(const void* symbol, Kernel& kernel) {
  if (const cudaError_t error = load(*kernel.binary); error != cudaSuccess) return error;
  const std::lock_guard lock(kernel.binary->mutex);
  if (kernel.kernel) return cudaSuccess;
  const CUresult result = cuLibraryGetKernel(&kernel.kernel, kernel.binary->library, kernel.name.c_str());
  if (result != CUDA_SUCCESS)
    return result == CUDA_ERROR_NOT_FOUND ? cudaErrorInvalidDeviceFunction : as_error(result);
  const std::lock_guard also(registry().mutex);
  registry().symbols[kernel.kernel] = symbol;
  return cudaSuccess;
}

template <class Entry>
void forget(std::unordered_map<const void*, std::deque<Entry>>& map, const FatBinary* binary,
            std::unordered_set<const void*>* gone) {
  for (auto entry = map.begin(); entry != map.end();) {
    std::erase_if(entry->second, [&](const Entry& one) { return one.binary == binary; });
    if (entry->second.empty()) gone->insert(entry->first);
    entry = entry->second.empty() ? map.erase(entry) : std::next(entry);
  }
}

// The driver's error for an unknown handle.
cudaError_t as_function_error(CUresult result) {
  const bool is_none = result == CUDA_ERROR_INVALID_HANDLE || result == CUDA_ERROR_INVALID_VALUE;
  return is_none ? cudaErrorInvalidDeviceFunction : as_error(result);
}

FatBinary* binary_of(void** handle) { return reinterpret_cast<FatBinary*>(handle); }

}  // namespace

cudaError_t kernel_of(const void* symbol, CUkernel* kernel) {
  if (Kernel* found = find(registry().kernels, symbol)) {
    const cudaError_t error = resolve(symbol, *found);
    *kernel = found->kernel;
    return error;
  }
  // It may be a handle, which the driver can check.
  CUlibrary library = nullptr;
  *kernel = static_cast<CUkernel>(const_cast<void*>(symbol));
  return symbol ? as_function_error(cuKernelGetLibrary(&library, *kernel)) : cudaErrorInvalidDeviceFunction;
}

cudaError_t function_of(const void* symbol, CUfunction* function) {
  CUkernel kernel = nullptr;
  cudaError_t error = kernel_of(symbol, &kernel);
  if (error == cudaSuccess) {
    error = as_error(cuKernelGetFunction(function, kernel));
    if (error == cudaSuccess) {
      const std::lock_guard lock(registry().mutex);
      const auto known = registry().symbols.find(symbol);
      registry().symbols[*function] = known == registry().symbols.end() ? symbol : known->second;
    }
    return error;
  }
  if (error != cudaErrorInvalidDeviceFunction || find(registry().kernels, symbol)) return error;
  CUfunctionLoadingState state;
  *function = static_cast<CUfunction>(const_cast<void*>(symbol));
  return symbol ? as_function_error(cuFuncIsLoaded(&state, *function)) : cudaErrorInvalidDeviceFunction;
}

const void* symbol_of(CUfunction function) {
  const std::lock_guard lock(registry().mutex);
  const auto found = registry().symbols.find(function);
  return found == registry().symbols.end() ? nullptr : found->second;
}

cudaError_t variable_of(const void* symbol, CUdeviceptr* address, size_t* size) {
  Variable* variable = find(registry().variables, symbol);
  if (!variable) return cudaErrorInvalidSymbol;
  if (const cudaError_t error = load(*variable->binary); error != cudaSuccess) return error;
  const char* name = variable->name.c_str();
  const CUlibrary library = variable->binary->library;
  const CUresult result = variable->is_managed ? cuLibraryGetManaged(address, size, library, name)
                                               : cuLibraryGetGlobal(address, size, library, name);
  return result == CUDA_ERROR_NOT_FOUND ? cudaErrorInvalidSymbol : as_error(result);
}

}  // namespace cropdl::cudart

using namespace cropdl::cudart;

extern "C" {

void** __cudaRegisterFatBinary(void* wrapper) {
  const std::lock_guard lock(registry().mutex);
  FatBinary& binary = registry().binaries.emplace_back();
  binary.wrapper = wrapper;
  return reinterpret_cast<void**>(&binary);
}

void __cudaRegisterFatBinaryEnd(void**) {}

void __cudaUnregisterFatBinary(void** handle) {
  if (is_ending) return;
  FatBinary* binary = binary_of(handle);
  CUlibrary library = nullptr;
  {
    const std::lock_guard lock(registry().mutex);
    library = binary->library;
    std::unordered_set<const void*> gone;
    forget(registry().kernels, binary, &gone);
    forget(registry().variables, binary, &gone);
    std::erase_if(registry().symbols, [&](const auto& one) { return gone.count(one.second); });
    registry().binaries.remove_if([&](const FatBinary& one) { return &one == binary; });
  }
  if (library) cuLibraryUnload(library);
}

void __cudaRegisterFunction(void** handle, const char* host, char*, const char* name, int, uint3*, uint3*,
                            dim3*, dim3*, int*) {
  const std::lock_guard lock(registry().mutex);
  registry().kernels[host].push_back({binary_of(handle), name, nullptr});
}

void __cudaRegisterVar(void** handle, char* host, char*, const char* name, int, size_t, int, int) {
  const std::lock_guard lock(registry().mutex);
  registry().variables[host].push_back({binary_of(handle), name, false});
}

// Host code accesses such a variable through a pointer, the slot.
void __cudaRegisterManagedVar(void** handle, void** slot, char*, const char* name, int, size_t, int, int) {
  const std::lock_guard lock(registry().mutex);
  binary_of(handle)->managed.push_back({slot, name});
}

// A host variable that kernels access by name: works only on devices that use the host's page tables.
void __cudaRegisterHostVar(void**, const char* name, char*, size_t) { refuse(name); }

// Called before host code first accesses a managed variable of that fat binary.
char __cudaInitModule(void** handle) {
  run([&] { return load(*binary_of(handle)); });
  return 1;
}

// The stub of a launch keeps the result in a static: it is valid in all contexts and after a reset. If the
// kernel is unavailable, the symbol itself is returned, so that the launch reports why.
cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* symbol) {
  *kernel = static_cast<cudaKernel_t>(const_cast<void*>(symbol));
  CUkernel found = nullptr;
  const cudaError_t error = enter();
  if (error != cudaSuccess || kernel_of(symbol, &found) != cudaSuccess) return cudaSuccess;
  *kernel = found;
  return cudaSuccess;
}
}
