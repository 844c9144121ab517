// cuLink*: the parts are linked when the image is loaded (ptx/link.h), and once before, to report errors.
#include <cuda.h>

#include <cstring>

#include "base/format.h"
#include "gpu_state/software/device/context.h"
#include "gpu_state/software/device/image.h"
#include "gpu_state/software/device/live.h"
#include "gpu_state/software/driver/images.h"
#include "gpu_state/software/driver/jit.h"
#include "gpu_state/software/settings/settings.h"

using namespace cropdl;

struct CUlinkState_st {
  std::mutex mutex;
  driver::JitOptions options;  // the log buffers belong to the caller until cuLinkDestroy
  ptx::Texts parts;
  std::string image;
};

namespace {

device::Live<CUlinkState_st>& links() {
  static auto& all = *new device::Live<CUlinkState_st>;
  return all;
}

CUresult get(CUlinkState handle, std::shared_ptr<CUlinkState_st>* link) {
  if (CUresult error = device::initialized()) return error;
  *link = links().find(handle);
  return *link ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult check_type(CUjitInputType type) {
  switch (type) {
    case CU_JIT_INPUT_PTX:
    case CU_JIT_INPUT_FATBINARY:
    case CU_JIT_INPUT_OBJECT:
    case CU_JIT_INPUT_CUBIN:
      return CUDA_SUCCESS;  // for the last one, its reader reports that it contains no PTX
    case CU_JIT_INPUT_LIBRARY:
      settings::say_not_built("cuLinkAddData of a library (CU_JIT_INPUT_LIBRARY)");
      return CUDA_ERROR_NOT_SUPPORTED;
    case CU_JIT_INPUT_NVVM:
      settings::say_not_built("cuLinkAddData of NVVM (CU_JIT_INPUT_NVVM)");
      return CUDA_ERROR_NOT_SUPPORTED;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult add_part(CUlinkState_st& link, ptx::Texts part, const std::string& name) {
  std::lock_guard lock(link.mutex);
  if (!link.image.empty()) return CUDA_ERROR_INVALID_VALUE;  // already complete
  // Reports now whether the part can be read; symbols that it lacks may come from other parts.
  CUresult result = CUDA_SUCCESS;
  switch (part.refused) {
    case ptx::Refusal::kNone:
      break;
    case ptx::Refusal::kNoPtx:
      result = CUDA_ERROR_NO_BINARY_FOR_GPU;
      break;
    case ptx::Refusal::kNoImage:
      result = CUDA_ERROR_INVALID_IMAGE;
      break;
    default:
      result = CUDA_ERROR_INVALID_PTX;
  }
  if (result) {
    link.options.report("", formatted("{}: {}", name, part.why));
    return result;
  }
  for (std::string& text : part.texts) link.parts.texts.push_back(std::move(text));
  return CUDA_SUCCESS;
}

}  // namespace

extern "C" {

CUresult cuLinkCreate_v2(unsigned int count, CUjit_option* options, void** values, CUlinkState* state) {
  CUcontext context;
  if (CUresult error = device::enter(&context)) return error;
  if (!state) return CUDA_ERROR_INVALID_VALUE;
  auto link = std::make_shared<CUlinkState_st>();
  if (CUresult error = link->options.read(count, options, values)) return error;
  *state = links().add(std::move(link));
  return CUDA_SUCCESS;
}
CUresult cuLinkCreate(unsigned int count, CUjit_option* options, void** values, CUlinkState* state) {
  return cuLinkCreate_v2(count, options, values, state);
}

CUresult cuLinkAddData_v2(CUlinkState handle, CUjitInputType type, void* data, size_t size, const char* name,
                          unsigned int count, CUjit_option* options, void** values) {
  std::shared_ptr<CUlinkState_st> link;
  if (CUresult error = get(handle, &link)) return error;
  if (!data || !size) return CUDA_ERROR_INVALID_VALUE;
  if (CUresult error = check_type(type)) return error;
  driver::JitOptions own;
  if (CUresult error = own.read(count, options, values)) return error;
  return add_part(*link, device::read_part(std::span(static_cast<const std::byte*>(data), size)),
                  name ? name : "a part");
}
CUresult cuLinkAddData(CUlinkState handle, CUjitInputType type, void* data, size_t size, const char* name,
                       unsigned int count, CUjit_option* options, void** values) {
  return cuLinkAddData_v2(handle, type, data, size, name, count, options, values);
}

CUresult cuLinkAddFile_v2(CUlinkState handle, CUjitInputType type, const char* path, unsigned int count,
                          CUjit_option* options, void** values) {
  std::shared_ptr<CUlinkState_st> link;
  if (CUresult error = get(handle, &link)) return error;
  if (!path) return CUDA_ERROR_INVALID_VALUE;
  if (CUresult error = check_type(type)) return error;
  driver::JitOptions own;
  if (CUresult error = own.read(count, options, values)) return error;
  std::vector<std::byte> file;
  if (CUresult error = driver::read_file(path, &file)) return error;
  return add_part(*link, device::read_part(file), path);
}
CUresult cuLinkAddFile(CUlinkState handle, CUjitInputType type, const char* path, unsigned int count,
                       CUjit_option* options, void** values) {
  return cuLinkAddFile_v2(handle, type, path, count, options, values);
}

CUresult cuLinkComplete(CUlinkState handle, void** image, size_t* size) {
  std::shared_ptr<CUlinkState_st> link;
  if (CUresult error = get(handle, &link)) return error;
  if (!image) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard lock(link->mutex);
  if (link->image.empty()) {
    if (link->parts.texts.empty()) return CUDA_ERROR_INVALID_VALUE;
    device::Image made;
    if (CUresult error = driver::make_image(link->parts, link->options, &made)) return error;
    link->image = device::linked_image(link->parts);
  }
  *image = link->image.data();
  if (size) *size = link->image.size();
  return CUDA_SUCCESS;
}

CUresult cuLinkDestroy(CUlinkState handle) {
  if (CUresult error = device::initialized()) return error;
  return links().take(handle) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

}  // extern "C"
