// cuModule*. A module is loaded into the current context.
#include <cuda.h>

#include <cstdlib>
#include <cstring>
#include <string_view>

#include "gpu_state/software/device/context.h"
#include "gpu_state/software/device/module.h"
#include "gpu_state/software/device/work.h"
#include "gpu_state/software/driver/images.h"
#include "gpu_state/software/driver/jit.h"
#include "gpu_state/software/settings/settings.h"

using namespace cropdl;

namespace {

CUresult enter_with(CUmodule handle, std::shared_ptr<CUmod_st>* module) {
  CUcontext context;
  if (CUresult error = device::enter(&context)) return error;
  *module = device::find_module(handle);
  return *module ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult load(CUcontext context, const ptx::Texts& texts, driver::JitOptions& options, CUmodule* module) {
  device::Image image;
  if (CUresult error = driver::make_image(texts, options, &image)) return error;
  return device::load_module(context, image, module);
}

}  // namespace

extern "C" {

CUresult cuModuleLoadDataEx(CUmodule* module, const void* data, unsigned int count, CUjit_option* options,
                            void** values) {
  CUcontext context;
  if (CUresult error = device::enter(&context)) return error;
  if (!module || !data) return CUDA_ERROR_INVALID_VALUE;
  driver::JitOptions jit;
  if (CUresult error = jit.read(count, options, values)) return error;
  return load(context, device::read_texts(data), jit, module);
}

CUresult cuModuleLoadData(CUmodule* module, const void* data) {
  return cuModuleLoadDataEx(module, data, 0, nullptr, nullptr);
}

CUresult cuModuleLoadFatBinary(CUmodule* module, const void* data) {
  return cuModuleLoadDataEx(module, data, 0, nullptr, nullptr);
}

CUresult cuModuleLoad(CUmodule* module, const char* path) {
  CUcontext context;
  if (CUresult error = device::enter(&context)) return error;
  if (!module || !path) return CUDA_ERROR_INVALID_VALUE;
  std::vector<std::byte> file;
  if (CUresult error = driver::read_file(path, &file)) return error;
  driver::JitOptions none;
  return load(context, device::read_texts(file), none, module);
}

CUresult cuModuleUnload(CUmodule handle) {
  std::shared_ptr<CUmod_st> module;
  if (CUresult error = enter_with(handle, &module)) return error;
  if (module->library) return CUDA_ERROR_NOT_PERMITTED;  // cuLibraryUnload unloads it
  if (CUresult error = device::unsafe_while_capturing()) return error;
  return device::unload_module(handle);
}

CUresult cuModuleGetFunction(CUfunction* function, CUmodule handle, const char* name) {
  std::shared_ptr<CUmod_st> module;
  if (CUresult error = enter_with(handle, &module)) return error;
  if (!function || !name || !*name) return CUDA_ERROR_INVALID_VALUE;
  return device::function_of(*module, name, function);
}

CUresult cuModuleGetFunctionCount(unsigned int* count, CUmodule handle) {
  std::shared_ptr<CUmod_st> module;
  if (CUresult error = enter_with(handle, &module)) return error;
  if (!count) return CUDA_ERROR_INVALID_VALUE;
  *count = static_cast<unsigned>(module->functions.size());
  return CUDA_SUCCESS;
}

CUresult cuModuleEnumerateFunctions(CUfunction* functions, unsigned int count, CUmodule handle) {
  std::shared_ptr<CUmod_st> module;
  if (CUresult error = enter_with(handle, &module)) return error;
  if (!functions || count == 0) return CUDA_ERROR_INVALID_VALUE;
  for (unsigned i = 0; i < count && i < module->functions.size(); ++i)
    functions[i] = module->functions[i].second;
  return CUDA_SUCCESS;
}

CUresult cuModuleGetGlobal_v2(CUdeviceptr* address, size_t* size, CUmodule handle, const char* name) {
  std::shared_ptr<CUmod_st> module;
  if (CUresult error = enter_with(handle, &module)) return error;
  if (!name || (!address && !size)) return CUDA_ERROR_INVALID_VALUE;
  device::VariablePlace place;
  if (CUresult error = device::variable_of(*module, name, &place)) return error;
  if (address) *address = place.address;
  if (size) *size = place.size;
  return CUDA_SUCCESS;
}

// Kernels are always lowered on first use. CUDA_MODULE_LOADING changes only this answer.
CUresult cuModuleGetLoadingMode(CUmoduleLoadingMode* mode) {
  if (CUresult error = device::initialized()) return error;
  if (!mode) return CUDA_ERROR_INVALID_VALUE;
  const char* wish = std::getenv("CUDA_MODULE_LOADING");
  *mode = wish && std::string_view(wish) == "EAGER" ? CU_MODULE_EAGER_LOADING : CU_MODULE_LAZY_LOADING;
  return CUDA_SUCCESS;
}

CUresult cuModuleGetTexRef(CUtexref*, CUmodule, const char*) {
  settings::say_not_built("cuModuleGetTexRef (there are no textures)");
  return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult cuModuleGetSurfRef(CUsurfref*, CUmodule, const char*) {
  settings::say_not_built("cuModuleGetSurfRef (there are no surfaces)");
  return CUDA_ERROR_NOT_SUPPORTED;
}

}  // extern "C"
