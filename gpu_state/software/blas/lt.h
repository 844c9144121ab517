// cuBLASLt's descriptors. They are in the caller's memory or in memory from …Create(); their first word
// identifies the kind, and changes when they are destroyed. Sizes of attributes: cublasLt.h. Host side.
// Any thread, but no thread may change a descriptor while another uses it.
#pragma once

#include <cublasLt.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace cropdl::blas::lt {

struct Layout {
  static constexpr uint64_t kKind = 0x7475'6f79'616c'746c;
  uint64_t kind = kKind;
  uint64_t rows = 0, columns = 0;
  int64_t leading = 0;
  int64_t stride = 0;  // between the matrices of a batch, in elements
  int64_t plane = 0;
  int32_t order = CUBLASLT_ORDER_COL;
  int32_t batch = 1;
  uint32_t type = CUDA_R_32F;
  int32_t batch_mode = CUBLASLT_BATCH_MODE_STRIDED;
};

struct Operation {
  static constexpr uint64_t kKind = 0x6c75'6d74'616d'746c;
  uint64_t kind = kKind;
  int32_t compute = 0, scale = 0;
  int32_t pointer_mode = CUBLASLT_POINTER_MODE_HOST;
  int32_t a_is = CUBLAS_OP_N, b_is = CUBLAS_OP_N, c_is = CUBLAS_OP_N;
  int32_t fill = CUBLAS_FILL_MODE_FULL;
  uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  int32_t multiprocessors = 0;
  int32_t aux_type = -1, bias_type = -1;
  int32_t a_scale_mode = 0, b_scale_mode = 0, c_scale_mode = 0, d_scale_mode = 0, aux_scale_mode = 0,
          d_out_scale_mode = 0;
  int8_t fast_accumulation = 0;
  void *bias = nullptr, *aux = nullptr;
  int64_t bias_stride = 0, aux_leading = 0, aux_stride = 0, alpha_stride = 0;
  const float *a_scale = nullptr, *b_scale = nullptr, *c_scale = nullptr, *d_scale = nullptr;
  float* d_largest = nullptr;
  void *aux_scale = nullptr, *aux_largest = nullptr, *d_out_scale = nullptr, *emulation = nullptr;
};

struct Preference {
  static constexpr uint64_t kKind = 0x6665'7270'6d6d'746c;
  uint64_t kind = kKind;
  uint64_t workspace = 0;
  uint64_t implementations = ~uint64_t{0};
  uint32_t search = CUBLASLT_SEARCH_BEST_FIT;
  uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_MASK;
  uint32_t alignment[4] = {256, 256, 256, 256};
  float waves = 0;
};

struct Transform {
  static constexpr uint64_t kKind = 0x6d72'6f66'7274'746c;
  uint64_t kind = kKind;
  int32_t scale = 0;
  int32_t pointer_mode = CUBLASLT_POINTER_MODE_HOST;
  int32_t a_is = CUBLAS_OP_N, b_is = CUBLAS_OP_N;
};

struct Algorithm {
  static constexpr uint64_t kKind = 0x6f67'6c61'6d6d'746c;
  uint64_t kind = kKind;
  // indexed by cublasLtMatmulAlgoConfigAttributes_t; 1: not split in K
  uint32_t configuration[9] = {0, 0, 1};
};

// The descriptor of a handle; null: not of this kind.
template <class T, class Handle>
const T* descriptor(const Handle* handle) {
  static_assert(sizeof(T) <= sizeof(*handle));
  auto* found = reinterpret_cast<const T*>(handle);
  return found && found->kind == T::kKind ? found : nullptr;
}
template <class T, class Handle>
T* descriptor(Handle* handle) {
  return const_cast<T*>(descriptor<T>(static_cast<const Handle*>(handle)));
}

struct Attribute {
  int name;
  size_t offset, size;
};
cublasStatus_t set(void* descriptor, std::span<const Attribute> known, int name, const void* from,
                   size_t size);
cublasStatus_t get(const void* descriptor, std::span<const Attribute> known, int name, void* into,
                   size_t size, size_t* written);

// Whether the handle is valid, as a cuBLASLt handle or a cuBLAS handle, which is accepted too (cuBLAS
// documentation, "cublasLtHandle_t"); otherwise CUBLAS_STATUS_NOT_INITIALIZED.
cublasStatus_t check(cublasLtHandle_t handle);

// Whether matmul() supports this, apart from the pointers: SUCCESS, INVALID_VALUE, or NOT_SUPPORTED with a
// message that says what.
cublasStatus_t can_multiply(const Operation& operation, const Layout& a, const Layout& b, const Layout& c,
                            const Layout& d);
cublasStatus_t can_run(const Algorithm& algorithm);

cublasStatus_t refuse(const char* what);  // NOT_SUPPORTED, printed once

}  // namespace cropdl::blas::lt
