// cublas<t>gemm, gemmEx and their batched forms. Source of arguments and errors: cuBLAS documentation,
// "cublas<t>gemm()" and "cublasGemmEx()".
#include <cuda_fp16.h>

#include <cstring>
#include <vector>

#include "gpu_state/software/blas/handle.h"
#include "gpu_state/software/blas/product.h"
#include "gpu_state/software/settings/settings.h"

namespace cropdl::blas {
namespace {

// alpha or beta of any scale type.
class AnyScalar {
 public:
  AnyScalar(cublasHandle_t handle, const void* pointer, cudaDataType type)
      : on_device_(handle->pointer_mode == CUBLAS_POINTER_MODE_DEVICE),
        size_(size_of(type)),
        pointer_(pointer) {
    if (!on_device_) std::memcpy(value_, pointer, size_);
  }
  void get(void* into) const {
    if (on_device_) must_be(pointer_, size_, false);
    std::memcpy(into, on_device_ ? pointer_ : value_, size_);
  }

 private:
  bool on_device_;
  size_t size_;
  const void* pointer_;
  alignas(16) unsigned char value_[16];
};

struct Batch {
  int64_t count = 1;
  long long stride_a = 0, stride_b = 0, stride_c = 0;  // elements
  const void* const* a = nullptr;                      // pointers in device memory, read when the work runs
  const void* const* b = nullptr;
  void* const* c = nullptr;
};

cublasStatus_t product(cublasHandle_t handle, const char* name, cublasOperation_t a_is,
                       cublasOperation_t b_is, int64_t m, int64_t n, int64_t k, const void* alpha,
                       const void* a, cudaDataType a_type, int64_t lda, const void* b, cudaDataType b_type,
                       int64_t ldb, const void* beta, void* c, cudaDataType c_type, int64_t ldc,
                       cudaDataType scale_type, const Batch& batch) {
  if (cublasStatus_t status = check(handle)) return status;
  if (!is_valid(a_is) || !is_valid(b_is) || m < 0 || n < 0 || k < 0 || batch.count < 0)
    return CUBLAS_STATUS_INVALID_VALUE;
  if (lda < std::max<int64_t>(1, a_is == CUBLAS_OP_N ? m : k) ||
      ldb < std::max<int64_t>(1, b_is == CUBLAS_OP_N ? k : n) || ldc < std::max<int64_t>(1, m))
    return CUBLAS_STATUS_INVALID_VALUE;
  if (!m || !n || !batch.count) return CUBLAS_STATUS_SUCCESS;
  if (!alpha || !beta) return CUBLAS_STATUS_INVALID_VALUE;
  Product p;
  p.m = m;
  p.n = n;
  p.k = k;
  p.a = {a, a_type, lda, operation_of(a_is)};
  p.b = {b, b_type, ldb, operation_of(b_is)};
  p.c = {c, c_type, ldc, Operation::kNone};
  p.d = c;
  p.d_type = c_type;
  p.d_leading = ldc;
  p.scale_type = scale_type;
  if (!is_built(p) || is_eight_bit_float(a_type)) {  // only cuBLASLt multiplies these
    settings::say_not_built(std::string(name) + " of these types");
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  if (cublasStatus_t status = check_sizes(name, {m, n, k, lda, ldb, ldc})) return status;
  AnyScalar left(handle, alpha, scale_type), right(handle, beta, scale_type);
  return enqueue_guarded(handle, name, [=] {
    alignas(16) unsigned char x[16], y[16];
    left.get(x);
    right.get(y);
    if (batch.a) {
      may_read(batch.a, static_cast<size_t>(batch.count));
      may_read(batch.b, static_cast<size_t>(batch.count));
      may_read(batch.c, static_cast<size_t>(batch.count));
    }
    for (int64_t i = 0; i < batch.count; i++) {
      Product one = p;
      if (batch.a) {
        one.a.data = batch.a[i];
        one.b.data = batch.b[i];
        one.c.data = one.d = batch.c[i];
      } else {
        one.a.data = of_batch(a, i, batch.stride_a, size_of(a_type));
        one.b.data = of_batch(b, i, batch.stride_b, size_of(b_type));
        one.c.data = one.d = of_batch(c, i, batch.stride_c, size_of(c_type));
      }
      multiply(one, x, y);
    }
  });
}

// The types of cublas<t>gemm.
template <class T>
constexpr cudaDataType kType = CUDA_R_32F;
template <>
constexpr cudaDataType kType<double> = CUDA_R_64F;
template <>
constexpr cudaDataType kType<cuComplex> = CUDA_C_32F;
template <>
constexpr cudaDataType kType<cuDoubleComplex> = CUDA_C_64F;
template <>
constexpr cudaDataType kType<__half> = CUDA_R_16F;

template <class T>
cublasStatus_t of_type(cublasHandle_t h, const char* name, cublasOperation_t ta, cublasOperation_t tb,
                       int64_t m, int64_t n, int64_t k, const T* alpha, const T* a, int64_t lda, const T* b,
                       int64_t ldb, const T* beta, T* c, int64_t ldc, const Batch& batch) {
  constexpr cudaDataType type = kType<T>;
  return product(h, name, ta, tb, m, n, k, alpha, a, type, lda, b, type, ldb, beta, c, type, ldc, type,
                 batch);
}

cublasStatus_t of_any(cublasHandle_t h, const char* name, cublasOperation_t ta, cublasOperation_t tb,
                      int64_t m, int64_t n, int64_t k, const void* alpha, const void* a, cudaDataType a_type,
                      int64_t lda, const void* b, cudaDataType b_type, int64_t ldb, const void* beta, void* c,
                      cudaDataType c_type, int64_t ldc, cublasComputeType_t compute, const Batch& batch) {
  cudaDataType scale;
  if (!scale_type_of(compute, c_type, &scale)) {
    settings::say_not_built(std::string(name) + " with this compute type");
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  return product(h, name, ta, tb, m, n, k, alpha, a, a_type, lda, b, b_type, ldb, beta, c, c_type, ldc, scale,
                 batch);
}

Batch strided(int64_t count, long long a, long long b, long long c) {
  Batch batch;
  batch.count = count;
  batch.stride_a = a;
  batch.stride_b = b;
  batch.stride_c = c;
  return batch;
}

Batch pointed(int64_t count, const void* a, const void* b, const void* c) {
  Batch batch;
  batch.count = count;
  batch.a = static_cast<const void* const*>(a);
  batch.b = static_cast<const void* const*>(b);
  batch.c = static_cast<void* const*>(c);
  return batch;
}

}  // namespace
}  // namespace cropdl::blas

using namespace cropdl::blas;  // NOLINT

#define GEMM(I, SUFFIX, X, VERSION, T)                                                                      \
  cublasStatus_t cublas##X##gemm##VERSION##SUFFIX(                                                          \
      cublasHandle_t h, cublasOperation_t ta, cublasOperation_t tb, I m, I n, I k, const T* alpha,          \
      const T* a, I lda, const T* b, I ldb, const T* beta, T* c, I ldc) {                                   \
    return of_type<T>(h, "cublas" #X "gemm", ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc, {});     \
  }                                                                                                         \
  cublasStatus_t cublas##X##gemmBatched##SUFFIX(                                                            \
      cublasHandle_t h, cublasOperation_t ta, cublasOperation_t tb, I m, I n, I k, const T* alpha,          \
      const T* const a[], I lda, const T* const b[], I ldb, const T* beta, T* const c[], I ldc, I count) {  \
    return of_type<T>(h, "cublas" #X "gemmBatched", ta, tb, m, n, k, alpha, nullptr, lda, nullptr, ldb,     \
                      beta, nullptr, ldc, pointed(count, a, b, c));                                         \
  }                                                                                                         \
  cublasStatus_t cublas##X##gemmStridedBatched##SUFFIX(                                                     \
      cublasHandle_t h, cublasOperation_t ta, cublasOperation_t tb, I m, I n, I k, const T* alpha,          \
      const T* a, I lda, long long sa, const T* b, I ldb, long long sb, const T* beta, T* c, I ldc,         \
      long long sc, I count) {                                                                              \
    return of_type<T>(h, "cublas" #X "gemmStridedBatched", ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, \
                      ldc, strided(count, sa, sb, sc));                                                     \
  }

#define GEMM_EX(I, SUFFIX, UNUSED)                                                                          \
  cublasStatus_t cublasSgemmEx##SUFFIX(cublasHandle_t h, cublasOperation_t ta, cublasOperation_t tb, I m,   \
                                       I n, I k, const float* alpha, const void* a, cudaDataType at, I lda, \
                                       const void* b, cudaDataType bt, I ldb, const float* beta, void* c,   \
                                       cudaDataType ct, I ldc) {                                            \
    return of_any(h, "cublasSgemmEx", ta, tb, m, n, k, alpha, a, at, lda, b, bt, ldb, beta, c, ct, ldc,     \
                  CUBLAS_COMPUTE_32F, {});                                                                  \
  }                                                                                                         \
  cublasStatus_t cublasGemmEx##SUFFIX(                                                                      \
      cublasHandle_t h, cublasOperation_t ta, cublasOperation_t tb, I m, I n, I k, const void* alpha,       \
      const void* a, cudaDataType at, I lda, const void* b, cudaDataType bt, I ldb, const void* beta,       \
      void* c, cudaDataType ct, I ldc, cublasComputeType_t compute, cublasGemmAlgo_t) {                     \
    return of_any(h, "cublasGemmEx", ta, tb, m, n, k, alpha, a, at, lda, b, bt, ldb, beta, c, ct, ldc,      \
                  compute, {});                                                                             \
  }                                                                                                         \
  cublasStatus_t cublasGemmBatchedEx##SUFFIX(                                                               \
      cublasHandle_t h, cublasOperation_t ta, cublasOperation_t tb, I m, I n, I k, const void* alpha,       \
      const void* const a[], cudaDataType at, I lda, const void* const b[], cudaDataType bt, I ldb,         \
      const void* beta, void* const c[], cudaDataType ct, I ldc, I count, cublasComputeType_t compute,      \
      cublasGemmAlgo_t) {                                                                                   \
    return of_any(h, "cublasGemmBatchedEx", ta, tb, m, n, k, alpha, nullptr, at, lda, nullptr, bt, ldb,     \
                  beta, nullptr, ct, ldc, compute, pointed(count, a, b, c));                                \
  }                                                                                                         \
  cublasStatus_t cublasGemmStridedBatchedEx##SUFFIX(                                                        \
      cublasHandle_t h, cublasOperation_t ta, cublasOperation_t tb, I m, I n, I k, const void* alpha,       \
      const void* a, cudaDataType at, I lda, long long sa, const void* b, cudaDataType bt, I ldb,           \
      long long sb, const void* beta, void* c, cudaDataType ct, I ldc, long long sc, I count,               \
      cublasComputeType_t compute, cublasGemmAlgo_t) {                                                      \
    return of_any(h, "cublasGemmStridedBatchedEx", ta, tb, m, n, k, alpha, a, at, lda, b, bt, ldb, beta, c, \
                  ct, ldc, compute, strided(count, sa, sb, sc));                                            \
  }

extern "C" {
CROPDL_WITH_BOTH_INTEGERS(GEMM, S, _v2, float)
CROPDL_WITH_BOTH_INTEGERS(GEMM, D, _v2, double)
CROPDL_WITH_BOTH_INTEGERS(GEMM, C, _v2, cuComplex)
CROPDL_WITH_BOTH_INTEGERS(GEMM, Z, _v2, cuDoubleComplex)
CROPDL_WITH_BOTH_INTEGERS(GEMM, H, , __half)
CROPDL_WITH_BOTH_INTEGERS(GEMM_EX, )
}  // extern "C"

#undef GEMM
#undef GEMM_EX
