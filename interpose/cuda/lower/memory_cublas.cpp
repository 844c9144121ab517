// cublasAlloc and cublasFree of cuBLAS's interface without handles. The memory comes from the arena. LH, LH
// FS base, a thread of the program.
#if __has_include(<cublas.h>)
#include <cublas.h>
#include <cuda_runtime_api.h>

extern "C" {

cudaError_t lower_cudaMalloc(void** pointer, size_t bytes);
cudaError_t lower_cudaFree(void* pointer);

cublasStatus_t lower_cublasAlloc(int n, int size, void** pointer) {
  if (n <= 0 || size <= 0 || !pointer) return CUBLAS_STATUS_INVALID_VALUE;
  const size_t bytes = static_cast<size_t>(n) * static_cast<size_t>(size);
  return lower_cudaMalloc(pointer, bytes) == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_ALLOC_FAILED;
}
cublasStatus_t lower_cublasFree(void* pointer) {
  return lower_cudaFree(pointer) == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INTERNAL_ERROR;
}

}  // extern "C"
#endif
