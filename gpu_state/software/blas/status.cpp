#include "gpu_state/software/blas/handle.h"

namespace cropdl::blas {

cublasStatus_t status_of(CUresult result) {
  switch (result) {
    case CUDA_SUCCESS:
      return CUBLAS_STATUS_SUCCESS;
    case CUDA_ERROR_OUT_OF_MEMORY:
      return CUBLAS_STATUS_ALLOC_FAILED;
    case CUDA_ERROR_NOT_INITIALIZED:
    case CUDA_ERROR_NO_DEVICE:
    case CUDA_ERROR_INVALID_CONTEXT:
      return CUBLAS_STATUS_NOT_INITIALIZED;
    case CUDA_ERROR_INVALID_VALUE:
      return CUBLAS_STATUS_INVALID_VALUE;
    default:
      return CUBLAS_STATUS_EXECUTION_FAILED;
  }
}

const char* name_of(cublasStatus_t status) {
  switch (status) {
#define CROPDL_NAME(name) \
  case name:              \
    return #name;
    CROPDL_NAME(CUBLAS_STATUS_SUCCESS)
    CROPDL_NAME(CUBLAS_STATUS_NOT_INITIALIZED)
    CROPDL_NAME(CUBLAS_STATUS_ALLOC_FAILED)
    CROPDL_NAME(CUBLAS_STATUS_INVALID_VALUE)
    CROPDL_NAME(CUBLAS_STATUS_ARCH_MISMATCH)
    CROPDL_NAME(CUBLAS_STATUS_MAPPING_ERROR)
    CROPDL_NAME(CUBLAS_STATUS_EXECUTION_FAILED)
    CROPDL_NAME(CUBLAS_STATUS_INTERNAL_ERROR)
    CROPDL_NAME(CUBLAS_STATUS_NOT_SUPPORTED)
    CROPDL_NAME(CUBLAS_STATUS_LICENSE_ERROR)
#undef CROPDL_NAME
    default:
      return "CUBLAS_STATUS_UNKNOWN";
  }
}

const char* text_of(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS:
      return "success";
    case CUBLAS_STATUS_NOT_INITIALIZED:
      return "the library was not initialized";
    case CUBLAS_STATUS_ALLOC_FAILED:
      return "the resource allocation failed";
    case CUBLAS_STATUS_INVALID_VALUE:
      return "an unsupported value or parameter was passed to the function";
    case CUBLAS_STATUS_ARCH_MISMATCH:
      return "the function requires a feature absent from the architecture of the device";
    case CUBLAS_STATUS_MAPPING_ERROR:
      return "an access to GPU memory space failed";
    case CUBLAS_STATUS_EXECUTION_FAILED:
      return "the function failed to launch on the GPU";
    case CUBLAS_STATUS_INTERNAL_ERROR:
      return "an internal operation failed";
    case CUBLAS_STATUS_NOT_SUPPORTED:
      return "the functionality requested is not supported";
    case CUBLAS_STATUS_LICENSE_ERROR:
      return "the functionality requested requires some license";
    default:
      return "unknown status";
  }
}

cublasStatus_t property_of_version(libraryPropertyType type, int* value) {
  if (!value) return CUBLAS_STATUS_INVALID_VALUE;
  switch (type) {
    case MAJOR_VERSION:
      *value = CUBLAS_VER_MAJOR;
      return CUBLAS_STATUS_SUCCESS;
    case MINOR_VERSION:
      *value = CUBLAS_VER_MINOR;
      return CUBLAS_STATUS_SUCCESS;
    case PATCH_LEVEL:
      *value = CUBLAS_VER_PATCH;
      return CUBLAS_STATUS_SUCCESS;
    default:
      return CUBLAS_STATUS_INVALID_VALUE;
  }
}

}  // namespace cropdl::blas
