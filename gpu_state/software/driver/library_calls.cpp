// cuLibrary*, cuKernel*: code that does not belong to a context.
#include <cuda.h>

#include "gpu_state/software/device/context.h"
#include "gpu_state/software/device/device.h"
#include "gpu_state/software/device/module.h"
#include "gpu_state/software/device/work.h"
#include "gpu_state/software/driver/function_attributes.h"
#include "gpu_state/software/driver/images.h"
#include "gpu_state/software/driver/jit.h"
#include "gpu_state/software/settings/settings.h"

using namespace cropdl;

namespace {

CUresult get(CUlibrary handle, std::shared_ptr<CUlib_st>* library) {
  if (CUresult error = device::initialized()) return error;
  *library = device::find_library(handle);
  return *library ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult get(CUkernel handle, std::shared_ptr<CUkern_st>* kernel) {
  if (CUresult error = device::initialized()) return error;
  *kernel = device::find_kernel(handle);
  return *kernel ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult check_options(CUlibraryOption* options, unsigned count, bool from_file) {
  if (count && !options) return CUDA_ERROR_INVALID_VALUE;
  for (unsigned i = 0; i < count; ++i) {
    // a hint: the texts are copied anyway
    if (options[i] == CU_LIBRARY_BINARY_IS_PRESERVED && !from_file) continue;
    if (options[i] != CU_LIBRARY_HOST_UNIVERSAL_FUNCTION_AND_DATA_TABLE) return CUDA_ERROR_INVALID_VALUE;
    settings::say_not_built("CU_LIBRARY_HOST_UNIVERSAL_FUNCTION_AND_DATA_TABLE");
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  return CUDA_SUCCESS;
}

CUresult load(const ptx::Texts& texts, driver::JitOptions& jit, CUlibrary* library) {
  device::Image image;
  if (CUresult error = driver::make_image(texts, jit, &image)) return error;
  return device::load_library(image, library);
}

}  // namespace

extern "C" {

CUresult cuLibraryLoadData(CUlibrary* library, const void* data, CUjit_option* options, void** values,
                           unsigned int count, CUlibraryOption* library_options, void**,
                           unsigned int library_count) {
  if (CUresult error = device::initialized()) return error;
  if (!library || !data) return CUDA_ERROR_INVALID_VALUE;
  driver::JitOptions jit;
  if (CUresult error = jit.read(count, options, values)) return error;
  if (CUresult error = check_options(library_options, library_count, false)) return error;
  return load(device::read_texts(data), jit, library);
}

CUresult cuLibraryLoadFromFile(CUlibrary* library, const char* path, CUjit_option* options, void** values,
                               unsigned int count, CUlibraryOption* library_options, void**,
                               unsigned int library_count) {
  if (CUresult error = device::initialized()) return error;
  if (!library || !path) return CUDA_ERROR_INVALID_VALUE;
  driver::JitOptions jit;
  if (CUresult error = jit.read(count, options, values)) return error;
  if (CUresult error = check_options(library_options, library_count, true)) return error;
  std::vector<std::byte> file;
  if (CUresult error = driver::read_file(path, &file)) return error;
  return load(device::read_texts(file), jit, library);
}

CUresult cuLibraryUnload(CUlibrary handle) {
  std::shared_ptr<CUlib_st> library;
  if (CUresult error = get(handle, &library)) return error;
  if (CUresult error = device::unsafe_while_capturing()) return error;
  return device::unload_library(handle);
}

CUresult cuLibraryGetKernel(CUkernel* kernel, CUlibrary handle, const char* name) {
  std::shared_ptr<CUlib_st> library;
  if (CUresult error = get(handle, &library)) return error;
  if (!kernel || !name) return CUDA_ERROR_INVALID_VALUE;
  for (const auto& [known, made] : library->kernels)
    if (known == name) {
      *kernel = made;
      return CUDA_SUCCESS;
    }
  return CUDA_ERROR_NOT_FOUND;
}

CUresult cuLibraryGetKernelCount(unsigned int* count, CUlibrary handle) {
  std::shared_ptr<CUlib_st> library;
  if (CUresult error = get(handle, &library)) return error;
  if (!count) return CUDA_ERROR_INVALID_VALUE;
  *count = static_cast<unsigned>(library->kernels.size());
  return CUDA_SUCCESS;
}

CUresult cuLibraryEnumerateKernels(CUkernel* kernels, unsigned int count, CUlibrary handle) {
  std::shared_ptr<CUlib_st> library;
  if (CUresult error = get(handle, &library)) return error;
  if (!kernels || count == 0) return CUDA_ERROR_INVALID_VALUE;
  for (unsigned i = 0; i < count && i < library->kernels.size(); ++i) kernels[i] = library->kernels[i].second;
  return CUDA_SUCCESS;
}

CUresult cuLibraryGetModule(CUmodule* module, CUlibrary handle) {
  CUcontext context;
  if (CUresult error = device::enter(&context)) return error;
  std::shared_ptr<CUlib_st> library;
  if (CUresult error = get(handle, &library)) return error;
  return module ? device::module_of(library, context, module) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuLibraryGetGlobal(CUdeviceptr* address, size_t* size, CUlibrary handle, const char* name) {
  if (!name || (!address && !size)) return CUDA_ERROR_INVALID_VALUE;
  CUmodule module = nullptr;
  if (CUresult error = cuLibraryGetModule(&module, handle)) return error;
  return cuModuleGetGlobal_v2(address, size, module, name);
}

CUresult cuLibraryGetManaged(CUdeviceptr* address, size_t* size, CUlibrary handle, const char* name) {
  std::shared_ptr<CUlib_st> library;
  if (CUresult error = get(handle, &library)) return error;
  if (!name || (!address && !size)) return CUDA_ERROR_INVALID_VALUE;
  auto at = library->managed.find(name);
  if (at == library->managed.end()) return CUDA_ERROR_NOT_FOUND;
  if (address) *address = at->second.address;
  if (size) *size = at->second.size;
  return CUDA_SUCCESS;
}

// No device here has CU_DEVICE_ATTRIBUTE_UNIFIED_FUNCTION_POINTERS: "If there is no device with attribute …
// present in the system, the call may return CUDA_ERROR_NOT_FOUND".
CUresult cuLibraryGetUnifiedFunction(void** function, CUlibrary handle, const char* name) {
  std::shared_ptr<CUlib_st> library;
  if (CUresult error = get(handle, &library)) return error;
  return function && name ? CUDA_ERROR_NOT_FOUND : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuKernelGetFunction(CUfunction* function, CUkernel handle) {
  CUcontext context;
  if (CUresult error = device::enter(&context)) return error;
  std::shared_ptr<CUkern_st> kernel;
  if (CUresult error = get(handle, &kernel)) return error;
  return function ? device::function_of(*kernel, context, function) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuKernelGetLibrary(CUlibrary* library, CUkernel handle) {
  std::shared_ptr<CUkern_st> kernel;
  if (CUresult error = get(handle, &kernel)) return error;
  if (!library) return CUDA_ERROR_INVALID_VALUE;
  *library = kernel->library;
  return CUDA_SUCCESS;
}

CUresult cuKernelGetName(const char** name, CUkernel handle) {
  if (!name || !handle) return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<CUkern_st> kernel;
  if (CUresult error = get(handle, &kernel)) return error;
  *name = kernel->name.c_str();
  return CUDA_SUCCESS;
}

CUresult cuKernelGetParamInfo(CUkernel handle, size_t index, size_t* offset, size_t* size) {
  std::shared_ptr<CUkern_st> kernel;
  if (CUresult error = get(handle, &kernel)) return error;
  std::shared_ptr<const engine::Kernel> code;
  if (CUresult error = device::code_of(*kernel, &code)) return error;
  return driver::parameter(engine::facts(*code), index, offset, size);
}

CUresult cuKernelGetAttribute(int* value, CUfunction_attribute which, CUkernel handle, CUdevice ordinal) {
  std::shared_ptr<CUkern_st> kernel;
  if (CUresult error = get(handle, &kernel)) return error;
  if (!value) return CUDA_ERROR_INVALID_VALUE;
  if (!device::find(ordinal)) return CUDA_ERROR_INVALID_DEVICE;
  std::shared_ptr<const engine::Kernel> code;
  if (CUresult error = device::code_of(*kernel, &code)) return error;
  std::lock_guard lock(kernel->mutex);
  return driver::get_attribute(value, which, engine::facts(*code), kernel->settings[ordinal], nullptr);
}

CUresult cuKernelSetAttribute(CUfunction_attribute which, int value, CUkernel handle, CUdevice ordinal) {
  std::shared_ptr<CUkern_st> kernel;
  if (CUresult error = get(handle, &kernel)) return error;
  if (!device::find(ordinal)) return CUDA_ERROR_INVALID_DEVICE;
  std::shared_ptr<const engine::Kernel> code;
  if (CUresult error = device::code_of(*kernel, &code)) return error;
  std::lock_guard lock(kernel->mutex);
  return driver::set_attribute(which, value, engine::facts(*code), kernel->settings[ordinal]);
}

CUresult cuKernelSetCacheConfig(CUkernel handle, CUfunc_cache config, CUdevice ordinal) {
  std::shared_ptr<CUkern_st> kernel;
  if (CUresult error = get(handle, &kernel)) return error;
  if (!device::find(ordinal)) return CUDA_ERROR_INVALID_DEVICE;
  std::lock_guard lock(kernel->mutex);
  return driver::set_cache(config, kernel->settings[ordinal]);
}

}  // extern "C"
