// cublas<t>geam, cublas<t>dgmm, and copies of vectors and matrices between host and device. Source: cuBLAS
// documentation, "BLAS-like Extension" and "Helper Function Reference".
#include <algorithm>

#include "gpu_state/software/blas/handle.h"
#include "gpu_state/software/blas/product.h"

namespace cropdl::blas {
namespace {

// C = alpha op(A) + beta op(B); A or B may be C unless transposed. A matrix whose factor is zero is not read.
template <class T>
cublasStatus_t geam(cublasHandle_t handle, cublasOperation_t a_is, cublasOperation_t b_is, int64_t m,
                    int64_t n, const T* alpha, const T* a, int64_t lda, const T* beta, const T* b,
                    int64_t ldb, T* c, int64_t ldc) {
  if (cublasStatus_t status = check(handle)) return status;
  if (!is_valid(a_is) || !is_valid(b_is) || m < 0 || n < 0 || !alpha || !beta)
    return CUBLAS_STATUS_INVALID_VALUE;
  if (lda < std::max<int64_t>(1, a_is == CUBLAS_OP_N ? m : n) ||
      ldb < std::max<int64_t>(1, b_is == CUBLAS_OP_N ? m : n) || ldc < std::max<int64_t>(1, m))
    return CUBLAS_STATUS_INVALID_VALUE;
  if ((a == c && (a_is != CUBLAS_OP_N || lda != ldc)) || (b == c && (b_is != CUBLAS_OP_N || ldb != ldc)))
    return CUBLAS_STATUS_INVALID_VALUE;
  if (!m || !n) return CUBLAS_STATUS_SUCCESS;
  Scalar<T> left(handle, alpha), right(handle, beta);
  return enqueue_guarded(handle, "cublasGeam", [=] {
    T x = left.get(), y = right.get();
    auto extent = [&](cublasOperation_t is, int64_t leading) {
      return is == CUBLAS_OP_N ? elements_of_matrix(m, n, leading) : elements_of_matrix(n, m, leading);
    };
    if (x != T{}) may_read(a, extent(a_is, lda));
    if (y != T{}) may_read(b, extent(b_is, ldb));
    may_write(c, elements_of_matrix(m, n, ldc));
    auto element = [](const T* matrix, cublasOperation_t is, int64_t leading, int64_t row, int64_t column) {
      if (is == CUBLAS_OP_N) return matrix[column * leading + row];
      T value = matrix[row * leading + column];
      return is == CUBLAS_OP_C ? conjugate(value) : value;
    };
    for (int64_t column = 0; column < n; column++)
      for (int64_t row = 0; row < m; row++) {
        T value{};
        if (x != T{}) value = x * element(a, a_is, lda, row, column);
        if (y != T{}) value += y * element(b, b_is, ldb, row, column);
        c[column * ldc + row] = value;
      }
  });
}

template <class T>
cublasStatus_t dgmm(cublasHandle_t handle, cublasSideMode_t side, int64_t m, int64_t n, const T* a,
                    int64_t lda, const T* x, int64_t incx, T* c, int64_t ldc) {
  if (cublasStatus_t status = check(handle)) return status;
  if ((side != CUBLAS_SIDE_LEFT && side != CUBLAS_SIDE_RIGHT) || m < 0 || n < 0 ||
      lda < std::max<int64_t>(1, m) || ldc < std::max<int64_t>(1, m))
    return CUBLAS_STATUS_INVALID_VALUE;
  if (!m || !n) return CUBLAS_STATUS_SUCCESS;
  return enqueue_guarded(handle, "cublasDgmm", [=] {
    int64_t length = side == CUBLAS_SIDE_LEFT ? m : n;
    may_read(a, elements_of_matrix(m, n, lda));
    may_read(x, elements_of_vector(length, incx));
    may_write(c, elements_of_matrix(m, n, ldc));
    const T* first = incx < 0 ? x - (length - 1) * incx : x;
    for (int64_t column = 0; column < n; column++)
      for (int64_t row = 0; row < m; row++)
        c[column * ldc + row] =
            a[column * lda + row] * first[(side == CUBLAS_SIDE_LEFT ? row : column) * incx];
  });
}

// A vector is a matrix with one row. The function's name says which side is host and which device memory.
enum Way { Set, Get };
cublasStatus_t copy_matrix(Way way, int64_t rows, int64_t columns, int64_t size, const void* from,
                           int64_t from_leading, void* to, int64_t to_leading, bool asynchronous,
                           CUstream stream) {
  if (rows < 0 || columns < 0 || size <= 0 || from_leading <= 0 || to_leading <= 0)
    return CUBLAS_STATUS_INVALID_VALUE;
  if (!rows || !columns) return CUBLAS_STATUS_SUCCESS;
  CUDA_MEMCPY2D copy{};
  copy.srcMemoryType = way == Set ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
  copy.dstMemoryType = way == Set ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
  copy.srcHost = from;
  copy.srcDevice = reinterpret_cast<CUdeviceptr>(from);
  copy.dstHost = to;
  copy.dstDevice = reinterpret_cast<CUdeviceptr>(to);
  if (__builtin_mul_overflow(from_leading, size, &copy.srcPitch) ||
      __builtin_mul_overflow(to_leading, size, &copy.dstPitch) ||
      __builtin_mul_overflow(rows, size, &copy.WidthInBytes))
    return CUBLAS_STATUS_INVALID_VALUE;
  copy.Height = static_cast<size_t>(columns);
  CUresult result = asynchronous ? cuMemcpy2DAsync(&copy, stream) : cuMemcpy2DUnaligned(&copy);
  return result == CUDA_SUCCESS ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_MAPPING_ERROR;
}

}  // namespace
}  // namespace cropdl::blas

using namespace cropdl::blas;  // NOLINT

#define EXTENSIONS(I, SUFFIX, X, T)                                                                         \
  cublasStatus_t cublas##X##geam##SUFFIX(cublasHandle_t h, cublasOperation_t ta, cublasOperation_t tb, I m, \
                                         I n, const T* alpha, const T* a, I lda, const T* beta, const T* b, \
                                         I ldb, T* c, I ldc) {                                              \
    return geam(h, ta, tb, m, n, own(alpha), own(a), lda, own(beta), own(b), ldb, own(c), ldc);             \
  }                                                                                                         \
  cublasStatus_t cublas##X##dgmm##SUFFIX(cublasHandle_t h, cublasSideMode_t side, I m, I n, const T* a,     \
                                         I lda, const T* x, I incx, T* c, I ldc) {                          \
    return dgmm(h, side, m, n, own(a), lda, own(x), incx, own(c), ldc);                                     \
  }

#define COPIES(I, SUFFIX, WAY)                                                                              \
  cublasStatus_t cublas##WAY##Vector##SUFFIX(I n, I size, const void* x, I incx, void* y, I incy) {         \
    return copy_matrix(WAY, 1, n, size, x, incx, y, incy, false, nullptr);                                  \
  }                                                                                                         \
  cublasStatus_t cublas##WAY##VectorAsync##SUFFIX(I n, I size, const void* x, I incx, void* y, I incy,      \
                                                  cudaStream_t stream) {                                    \
    return copy_matrix(WAY, 1, n, size, x, incx, y, incy, true, stream);                                    \
  }                                                                                                         \
  cublasStatus_t cublas##WAY##Matrix##SUFFIX(I rows, I columns, I size, const void* a, I lda, void* b,      \
                                             I ldb) {                                                       \
    return copy_matrix(WAY, rows, columns, size, a, lda, b, ldb, false, nullptr);                           \
  }                                                                                                         \
  cublasStatus_t cublas##WAY##MatrixAsync##SUFFIX(I rows, I columns, I size, const void* a, I lda, void* b, \
                                                  I ldb, cudaStream_t stream) {                             \
    return copy_matrix(WAY, rows, columns, size, a, lda, b, ldb, true, stream);                             \
  }

extern "C" {
CROPDL_WITH_BOTH_INTEGERS(EXTENSIONS, S, float)
CROPDL_WITH_BOTH_INTEGERS(EXTENSIONS, D, double)
CROPDL_WITH_BOTH_INTEGERS(EXTENSIONS, C, cuComplex)
CROPDL_WITH_BOTH_INTEGERS(EXTENSIONS, Z, cuDoubleComplex)
CROPDL_WITH_BOTH_INTEGERS(COPIES, Set)
CROPDL_WITH_BOTH_INTEGERS(COPIES, Get)
}  // extern "C"

#undef EXTENSIONS
#undef COPIES
