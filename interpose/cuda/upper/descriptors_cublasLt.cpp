// cuBLASLt's descriptors are plain data, which the program may copy and place anywhere, so they are in the
// program's own memory. UH, any thread, UH FS base; from libc: calloc, free.
#include <cublasLt.h>
#include <stdlib.h>

namespace {

// `init`: the library's function that initialises a descriptor in given memory.
template <class D, class Init>
cublasStatus_t made(D** out, Init init) {
  if (!out) return CUBLAS_STATUS_INVALID_VALUE;
  auto* d = static_cast<D*>(calloc(1, sizeof(D)));
  if (!d) return CUBLAS_STATUS_ALLOC_FAILED;
  const cublasStatus_t status = init(d, sizeof(D));
  if (status == CUBLAS_STATUS_SUCCESS)
    *out = d;
  else
    free(d);
  return status;
}
cublasStatus_t ended(void* d) {
  free(d);
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace

extern "C" {

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* out, cudaDataType type, uint64_t rows,
                                          uint64_t columns, int64_t stride) {
  return made(out, [&](auto* d, size_t size) {
    return cublasLtMatrixLayoutInit_internal(d, size, type, rows, columns, stride);
  });
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t d) { return ended(d); }

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* out, cublasComputeType_t computes,
                                        cudaDataType_t scale) {
  return made(
      out, [&](auto* d, size_t size) { return cublasLtMatmulDescInit_internal(d, size, computes, scale); });
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t d) { return ended(d); }

cublasStatus_t cublasLtMatrixTransformDescCreate(cublasLtMatrixTransformDesc_t* out, cudaDataType scale) {
  return made(out,
              [&](auto* d, size_t size) { return cublasLtMatrixTransformDescInit_internal(d, size, scale); });
}
cublasStatus_t cublasLtMatrixTransformDescDestroy(cublasLtMatrixTransformDesc_t d) { return ended(d); }

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* out) {
  return made(out, cublasLtMatmulPreferenceInit_internal);
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t d) { return ended(d); }

cublasStatus_t cublasLtEmulationDescCreate(cublasLtEmulationDesc_t* out) {
  return made(out, cublasLtEmulationDescInit_internal);
}
cublasStatus_t cublasLtEmulationDescDestroy(cublasLtEmulationDesc_t d) { return ended(d); }

}  // extern "C"
