#include "gpu_state/software/blas/handle.h"

#include <mutex>
#include <set>

#include "base/say.h"
#include "gpu_state/software/blas/openblas.h"

namespace cropdl::blas {

namespace {

std::mutex& mutex() {
  static auto* kept = new std::mutex;
  return *kept;
}
std::set<cublasHandle_t>& live() {
  static auto* kept = new std::set<cublasHandle_t>;
  return *kept;
}

}  // namespace

cublasStatus_t check(cublasHandle_t handle) {
  std::lock_guard lock(mutex());
  return live().count(handle) ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_INITIALIZED;
}

cublasStatus_t check_context(cublasHandle_t handle) {
  if (current_context() == handle->context) return CUBLAS_STATUS_SUCCESS;
  static std::once_flag once;
  std::call_once(once, [] {
    say("software GPU: a cuBLAS handle was used while another device or context was current");
  });
  return CUBLAS_STATUS_EXECUTION_FAILED;
}

}  // namespace cropdl::blas

using cropdl::blas::check;
using cropdl::blas::status_of;

namespace {

template <class T>
cublasStatus_t get(cublasHandle_t handle, T* into, T cublasContext::*member) {
  if (cublasStatus_t status = check(handle)) return status;
  if (!into) return CUBLAS_STATUS_INVALID_VALUE;
  *into = handle->*member;
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace

extern "C" {

cublasStatus_t cublasCreate_v2(cublasHandle_t* handle) {
  if (!handle) return CUBLAS_STATUS_INVALID_VALUE;
  *handle = nullptr;
  CUcontext context = cropdl::blas::current_context();
  if (!context || !cropdl::blas::there()) return CUBLAS_STATUS_NOT_INITIALIZED;
  *handle = new cublasContext{context};
  std::lock_guard lock(cropdl::blas::mutex());
  cropdl::blas::live().insert(*handle);
  return CUBLAS_STATUS_SUCCESS;
}

// Waits for the handle's work, as NVIDIA's cublasDestroy does (it frees memory).
cublasStatus_t cublasDestroy_v2(cublasHandle_t handle) {
  if (cublasStatus_t status = check(handle)) return status;
  CUcontext before;
  cublasStatus_t status = CUBLAS_STATUS_NOT_INITIALIZED;  // its context was destroyed together with its work
  if (cuCtxPushCurrent(handle->context) == CUDA_SUCCESS) {
    status = status_of(cuCtxSynchronize());
    cuCtxPopCurrent(&before);
  }
  std::lock_guard lock(cropdl::blas::mutex());
  cropdl::blas::live().erase(handle);
  delete handle;
  return status;
}

cublasStatus_t cublasGetVersion_v2(cublasHandle_t, int* version) {
  if (!version) return CUBLAS_STATUS_INVALID_VALUE;
  *version = CUBLAS_VERSION;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasGetProperty(libraryPropertyType type, int* value) {
  return cropdl::blas::property_of_version(type, value);
}

size_t cublasGetCudartVersion() { return CUDA_VERSION; }

// The software GPU's functions need no workspace.
cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t handle, void*, size_t) { return check(handle); }

cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, cudaStream_t stream) {
  if (cublasStatus_t status = check(handle)) return status;
  handle->stream = stream;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasGetStream_v2(cublasHandle_t handle, cudaStream_t* stream) {
  return get(handle, stream, &cublasContext::stream);
}

cublasStatus_t cublasSetPointerMode_v2(cublasHandle_t handle, cublasPointerMode_t mode) {
  if (cublasStatus_t status = check(handle)) return status;
  if (mode != CUBLAS_POINTER_MODE_HOST && mode != CUBLAS_POINTER_MODE_DEVICE)
    return CUBLAS_STATUS_INVALID_VALUE;
  handle->pointer_mode = mode;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasGetPointerMode_v2(cublasHandle_t handle, cublasPointerMode_t* mode) {
  return get(handle, mode, &cublasContext::pointer_mode);
}

cublasStatus_t cublasSetAtomicsMode(cublasHandle_t handle, cublasAtomicsMode_t mode) {
  if (cublasStatus_t status = check(handle)) return status;
  if (mode != CUBLAS_ATOMICS_NOT_ALLOWED && mode != CUBLAS_ATOMICS_ALLOWED)
    return CUBLAS_STATUS_INVALID_VALUE;
  handle->atomics_mode = mode;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasGetAtomicsMode(cublasHandle_t handle, cublasAtomicsMode_t* mode) {
  return get(handle, mode, &cublasContext::atomics_mode);
}

// Math modes only allow less exact results, which are never computed here.
cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t mode) {
  if (cublasStatus_t status = check(handle)) return status;
  switch (mode & ~CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION) {
    case CUBLAS_DEFAULT_MATH:
    case CUBLAS_TENSOR_OP_MATH:
    case CUBLAS_PEDANTIC_MATH:
    case CUBLAS_TF32_TENSOR_OP_MATH:
    case CUBLAS_FP32_EMULATED_BF16X9_MATH:
    case CUBLAS_FP64_EMULATED_FIXEDPOINT_MATH:
      handle->math_mode = mode;
      return CUBLAS_STATUS_SUCCESS;
    default:
      return CUBLAS_STATUS_INVALID_VALUE;
  }
}

cublasStatus_t cublasGetMathMode(cublasHandle_t handle, cublasMath_t* mode) {
  return get(handle, mode, &cublasContext::math_mode);
}

cublasStatus_t cublasSetSmCountTarget(cublasHandle_t handle, int count) {
  if (cublasStatus_t status = check(handle)) return status;
  if (count < 0) return CUBLAS_STATUS_INVALID_VALUE;
  handle->multiprocessors = count;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasGetSmCountTarget(cublasHandle_t handle, int* count) {
  return get(handle, count, &cublasContext::multiprocessors);
}

const char* cublasGetStatusName(cublasStatus_t status) { return cropdl::blas::name_of(status); }
const char* cublasGetStatusString(cublasStatus_t status) { return cropdl::blas::text_of(status); }

}  // extern "C"
