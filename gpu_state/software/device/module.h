// Modules, libraries, functions, kernels. A module belongs to one context: its variables are in that
// context's memory, and its code contains their addresses. A library belongs to none: it becomes a module in
// each context that uses it. Any thread. Handles are checked (live.h).
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "gpu_state/software/device/image.h"
#include "gpu_state/software/device/variables.h"
#include "gpu_state/software/engine/launch.h"

namespace cropdl::device {

// Settings of cuFuncSetAttribute and cuKernelSetAttribute.
struct FunctionSettings {
  std::atomic<int> max_dynamic_shared{-1};  // bytes; -1: not set: the rest of 48 KiB
  std::atomic<int> carveout{-1};            // CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT: a hint
  std::atomic<int> cache{0};                // CUfunc_cache: a hint
};

// The contents of a loaded module. Functions refer to it by weak pointers; the table of modules owns it.
struct Loaded {
  ~Loaded();  // releases the variables
  CUcontext context = nullptr;
  std::shared_ptr<const ptx::Module> text;
  VariablePlaces variables;
  std::unique_ptr<engine::Code> code;
  std::string target;  // "sm_75"
};

}  // namespace cropdl::device

struct CUfunc_st {
  std::string name;
  CUcontext context = nullptr;
  CUmodule module = nullptr;
  CUkernel kernel = nullptr;  // of a library's module; otherwise null
  std::weak_ptr<cropdl::device::Loaded> loaded;
  cropdl::device::FunctionSettings settings;
};

struct CUmod_st {
  CUcontext context = nullptr;
  CUlibrary library = nullptr;  // the module's library; null: loaded by cuModuleLoad…
  std::weak_ptr<cropdl::device::Loaded> loaded;
  std::vector<std::pair<std::string, CUfunction>> functions;  // kernels, in the order of the text
  std::unordered_map<std::string_view, CUfunction> by_name;
};

struct CUkern_st {
  std::string name;
  CUlibrary library = nullptr;
  // By the device's ordinal, made when first set. A module's function reads here the settings that it lacks
  // itself.
  std::mutex mutex;
  std::map<int, cropdl::device::FunctionSettings> settings;
};

struct CUlib_st {
  std::shared_ptr<const cropdl::ptx::Module> text;
  cropdl::device::VariablePlaces managed;  // one address in all contexts
  std::vector<std::pair<std::string, CUkernel>> kernels;
  std::mutex mutex;  // guards the members below
  std::map<CUcontext, CUmodule> modules;
  // Code that never runs, for queries of a kernel without a context (cuKernelGetAttribute). Made on first
  // use.
  std::unique_ptr<cropdl::engine::Code> contextless;
};

namespace cropdl::device {

// Loads into `context`, which is current. Errors are those of cuModuleLoadData; the explanation is in the log
// or, if the caller requested no log, on stderr.
CUresult load_module(CUcontext context, const Image& image, CUmodule* module);
CUresult load_module(CUcontext context, const Image& image, CUlib_st* library, CUmodule* module);
CUresult unload_module(CUmodule module);                 // waits for the context
std::shared_ptr<CUmod_st> find_module(CUmodule handle);  // null: none
std::shared_ptr<CUfunc_st> find_function(CUfunction handle);
// CUDA_ERROR_NOT_FOUND
CUresult function_of(const CUmod_st& module, std::string_view name, CUfunction* function);
CUresult variable_of(const CUmod_st& module, const std::string& name, VariablePlace* place);

CUresult load_library(const Image& image, CUlibrary* library);
CUresult unload_library(CUlibrary library);
std::shared_ptr<CUlib_st> find_library(CUlibrary handle);
std::shared_ptr<CUkern_st> find_kernel(CUkernel handle);
// The library's module in that context, loaded on first use.
CUresult module_of(const std::shared_ptr<CUlib_st>& library, CUcontext context, CUmodule* module);
// The kernel's function in that context.
CUresult function_of(const CUkern_st& kernel, CUcontext context, CUfunction* function);

// The function of the context that a handle denotes: a CUfunction, or a CUkernel cast to one (cuLaunchKernel
// allows that). CUDA_ERROR_INVALID_HANDLE: neither, or of another context.
CUresult resolve(CUfunction handle, CUcontext context, std::shared_ptr<CUfunc_st>* function);

// The function's code, lowered on first use. A kernel with an unknown instruction is
// CUDA_ERROR_NOT_SUPPORTED; instruction, kernel and line are printed on stderr once.
CUresult code_of(const CUfunc_st& function, std::shared_ptr<const engine::Kernel>* kernel);
// The code of a kernel without a context: only for queries, not for launches.
CUresult code_of(const CUkern_st& kernel, std::shared_ptr<const engine::Kernel>* code);

CUresult look_up(engine::Code& code, const std::string& name, std::shared_ptr<const engine::Kernel>* kernel);

// The dynamic shared memory that a launch may request: the rest of 48 KiB, or as
// CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES allows.
uint32_t max_dynamic_shared(const CUfunc_st& function, const engine::Kernel& kernel);

// The facts about a function that a launch needs.
struct Launchable {
  CUfunction function = nullptr;  // never a kernel's handle
  std::shared_ptr<const engine::Kernel> kernel;
  uint32_t max_dynamic_shared = 0;
};
// resolve(), code_of() and max_dynamic_shared() in one.
CUresult launchable(CUfunction handle, CUcontext context, Launchable* found);

}  // namespace cropdl::device
