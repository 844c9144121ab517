// Creation of descriptors, and their attributes.
#include "gpu_state/software/blas/lt.h"

namespace cropdl::blas::lt {

cublasStatus_t set(void* descriptor, std::span<const Attribute> known, int name, const void* from,
                   size_t size) {
  if (!descriptor || !from) return CUBLAS_STATUS_INVALID_VALUE;
  for (const Attribute& one : known)
    if (one.name == name) {
      if (size != one.size) return CUBLAS_STATUS_INVALID_VALUE;
      std::memcpy(static_cast<std::byte*>(descriptor) + one.offset, from, size);
      return CUBLAS_STATUS_SUCCESS;
    }
  return CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t get(const void* descriptor, std::span<const Attribute> known, int name, void* into,
                   size_t size, size_t* written) {
  if (!descriptor) return CUBLAS_STATUS_INVALID_VALUE;
  for (const Attribute& one : known)
    if (one.name == name) {
      if (size ? !into || size != one.size : !written) return CUBLAS_STATUS_INVALID_VALUE;
      if (size) std::memcpy(into, static_cast<const std::byte*>(descriptor) + one.offset, size);
      if (written) *written = one.size;
      return CUBLAS_STATUS_SUCCESS;
    }
  return CUBLAS_STATUS_INVALID_VALUE;
}

namespace {

template <class T, class Handle>
cublasStatus_t make_at(Handle* place, size_t size, const T& value) {
  if (!place || size < sizeof(T)) return CUBLAS_STATUS_INVALID_VALUE;
  std::memset(static_cast<void*>(place), 0, size);
  *reinterpret_cast<T*>(place) = value;
  return CUBLAS_STATUS_SUCCESS;
}

template <class T, class Handle>
cublasStatus_t make(Handle** handle, const T& value) {
  if (!handle) return CUBLAS_STATUS_INVALID_VALUE;
  *handle = new Handle{};
  return make_at(*handle, sizeof(Handle), value);
}

template <class T, class Handle>
cublasStatus_t destroy(Handle* handle) {
  if (!handle) return CUBLAS_STATUS_SUCCESS;
  T* found = descriptor<T>(handle);
  if (!found) return CUBLAS_STATUS_INVALID_VALUE;
  found->kind = 0;
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}

Layout layout(cudaDataType type, uint64_t rows, uint64_t columns, int64_t leading) {
  Layout made;
  made.type = type;
  made.rows = rows;
  made.columns = columns;
  made.leading = leading;
  return made;
}

Operation operation(cublasComputeType_t compute, cudaDataType scale) {
  Operation made;
  made.compute = compute;
  made.scale = scale;
  return made;
}

Transform transform(cudaDataType scale) {
  Transform made;
  made.scale = scale;
  return made;
}

#define CROPDL_ATTRIBUTE(T, name, member) \
  { name, offsetof(T, member), sizeof(T::member) }

const Attribute kOfLayout[] = {
    CROPDL_ATTRIBUTE(Layout, CUBLASLT_MATRIX_LAYOUT_TYPE, type),
    CROPDL_ATTRIBUTE(Layout, CUBLASLT_MATRIX_LAYOUT_ORDER, order),
    CROPDL_ATTRIBUTE(Layout, CUBLASLT_MATRIX_LAYOUT_ROWS, rows),
    CROPDL_ATTRIBUTE(Layout, CUBLASLT_MATRIX_LAYOUT_COLS, columns),
    CROPDL_ATTRIBUTE(Layout, CUBLASLT_MATRIX_LAYOUT_LD, leading),
    CROPDL_ATTRIBUTE(Layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, batch),
    CROPDL_ATTRIBUTE(Layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, stride),
    CROPDL_ATTRIBUTE(Layout, CUBLASLT_MATRIX_LAYOUT_PLANE_OFFSET, plane),
    CROPDL_ATTRIBUTE(Layout, CUBLASLT_MATRIX_LAYOUT_BATCH_MODE, batch_mode),
};

#define CROPDL_OPERATION(name, member) CROPDL_ATTRIBUTE(Operation, CUBLASLT_MATMUL_DESC_##name, member)
const Attribute kOfOperation[] = {
    CROPDL_OPERATION(COMPUTE_TYPE, compute),
    CROPDL_OPERATION(SCALE_TYPE, scale),
    CROPDL_OPERATION(POINTER_MODE, pointer_mode),
    CROPDL_OPERATION(TRANSA, a_is),
    CROPDL_OPERATION(TRANSB, b_is),
    CROPDL_OPERATION(TRANSC, c_is),
    CROPDL_OPERATION(FILL_MODE, fill),
    CROPDL_OPERATION(EPILOGUE, epilogue),
    CROPDL_OPERATION(BIAS_POINTER, bias),
    CROPDL_OPERATION(BIAS_BATCH_STRIDE, bias_stride),
    CROPDL_OPERATION(EPILOGUE_AUX_POINTER, aux),
    CROPDL_OPERATION(EPILOGUE_AUX_LD, aux_leading),
    CROPDL_OPERATION(EPILOGUE_AUX_BATCH_STRIDE, aux_stride),
    CROPDL_OPERATION(ALPHA_VECTOR_BATCH_STRIDE, alpha_stride),
    CROPDL_OPERATION(SM_COUNT_TARGET, multiprocessors),
    CROPDL_OPERATION(A_SCALE_POINTER, a_scale),
    CROPDL_OPERATION(B_SCALE_POINTER, b_scale),
    CROPDL_OPERATION(C_SCALE_POINTER, c_scale),
    CROPDL_OPERATION(D_SCALE_POINTER, d_scale),
    CROPDL_OPERATION(AMAX_D_POINTER, d_largest),
    CROPDL_OPERATION(EPILOGUE_AUX_DATA_TYPE, aux_type),
    CROPDL_OPERATION(EPILOGUE_AUX_SCALE_POINTER, aux_scale),
    CROPDL_OPERATION(EPILOGUE_AUX_AMAX_POINTER, aux_largest),
    CROPDL_OPERATION(FAST_ACCUM, fast_accumulation),
    CROPDL_OPERATION(BIAS_DATA_TYPE, bias_type),
    CROPDL_OPERATION(A_SCALE_MODE, a_scale_mode),
    CROPDL_OPERATION(B_SCALE_MODE, b_scale_mode),
    CROPDL_OPERATION(C_SCALE_MODE, c_scale_mode),
    CROPDL_OPERATION(D_SCALE_MODE, d_scale_mode),
    CROPDL_OPERATION(EPILOGUE_AUX_SCALE_MODE, aux_scale_mode),
    CROPDL_OPERATION(D_OUT_SCALE_POINTER, d_out_scale),
    CROPDL_OPERATION(D_OUT_SCALE_MODE, d_out_scale_mode),
    CROPDL_OPERATION(EMULATION_DESCRIPTOR, emulation),
};

#define CROPDL_PREFERENCE(name, member) CROPDL_ATTRIBUTE(Preference, CUBLASLT_MATMUL_PREF_##name, member)
const Attribute kOfPreference[] = {
    CROPDL_PREFERENCE(SEARCH_MODE, search),
    CROPDL_PREFERENCE(MAX_WORKSPACE_BYTES, workspace),
    CROPDL_PREFERENCE(REDUCTION_SCHEME_MASK, reductions),
    CROPDL_PREFERENCE(MIN_ALIGNMENT_A_BYTES, alignment[0]),
    CROPDL_PREFERENCE(MIN_ALIGNMENT_B_BYTES, alignment[1]),
    CROPDL_PREFERENCE(MIN_ALIGNMENT_C_BYTES, alignment[2]),
    CROPDL_PREFERENCE(MIN_ALIGNMENT_D_BYTES, alignment[3]),
    CROPDL_PREFERENCE(MAX_WAVES_COUNT, waves),
    CROPDL_PREFERENCE(IMPL_MASK, implementations),
};

#define CROPDL_TRANSFORM(name, member) \
  CROPDL_ATTRIBUTE(Transform, CUBLASLT_MATRIX_TRANSFORM_DESC_##name, member)
const Attribute kOfTransform[] = {
    CROPDL_TRANSFORM(SCALE_TYPE, scale),
    CROPDL_TRANSFORM(POINTER_MODE, pointer_mode),
    CROPDL_TRANSFORM(TRANSA, a_is),
    CROPDL_TRANSFORM(TRANSB, b_is),
};

}  // namespace
}  // namespace cropdl::blas::lt

using namespace cropdl::blas::lt;  // NOLINT

// Functions that every kind of descriptor has; `Kind` is its word in the functions' names.
#define DESCRIPTOR(Kind, T, attributes, Names)                                                         \
  cublasStatus_t cublasLt##Kind##Destroy(cublasLt##Kind##_t handle) { return destroy<T>(handle); }     \
  cublasStatus_t cublasLt##Kind##SetAttribute(cublasLt##Kind##_t handle, Names name, const void* from, \
                                              size_t size) {                                           \
    return set(descriptor<T>(handle), attributes, name, from, size);                                   \
  }                                                                                                    \
  cublasStatus_t cublasLt##Kind##GetAttribute(cublasLt##Kind##_t handle, Names name, void* into,       \
                                              size_t size, size_t* written) {                          \
    return get(descriptor<T>(handle), attributes, name, into, size, written);                          \
  }

extern "C" {

cublasStatus_t cublasLtMatrixLayoutInit_internal(cublasLtMatrixLayout_t handle, size_t size,
                                                 cudaDataType type, uint64_t rows, uint64_t columns,
                                                 int64_t leading) {
  return make_at(handle, size, layout(type, rows, columns, leading));
}
cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* handle, cudaDataType type, uint64_t rows,
                                          uint64_t columns, int64_t leading) {
  return make(handle, layout(type, rows, columns, leading));
}
DESCRIPTOR(MatrixLayout, Layout, kOfLayout, cublasLtMatrixLayoutAttribute_t)

cublasStatus_t cublasLtMatmulDescInit_internal(cublasLtMatmulDesc_t handle, size_t size,
                                               cublasComputeType_t compute, cudaDataType_t scale) {
  return make_at(handle, size, operation(compute, scale));
}
cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* handle, cublasComputeType_t compute,
                                        cudaDataType_t scale) {
  return make(handle, operation(compute, scale));
}
DESCRIPTOR(MatmulDesc, cropdl::blas::lt::Operation, kOfOperation, cublasLtMatmulDescAttributes_t)

cublasStatus_t cublasLtMatmulPreferenceInit_internal(cublasLtMatmulPreference_t handle, size_t size) {
  return make_at(handle, size, Preference{});
}
cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* handle) {
  return make(handle, Preference{});
}
DESCRIPTOR(MatmulPreference, Preference, kOfPreference, cublasLtMatmulPreferenceAttributes_t)

cublasStatus_t cublasLtMatrixTransformDescInit_internal(cublasLtMatrixTransformDesc_t handle, size_t size,
                                                        cudaDataType scale) {
  return make_at(handle, size, transform(scale));
}
cublasStatus_t cublasLtMatrixTransformDescCreate(cublasLtMatrixTransformDesc_t* handle, cudaDataType scale) {
  return make(handle, transform(scale));
}
DESCRIPTOR(MatrixTransformDesc, Transform, kOfTransform, cublasLtMatrixTransformDescAttributes_t)

}  // extern "C"
