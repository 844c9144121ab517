// Matrix and vector: sums run over columns (or rows) in order, in the type of the elements. Source: cuBLAS
// documentation, "cuBLAS Level-2 Function Reference".
#include <algorithm>

#include "gpu_state/software/blas/handle.h"
#include "gpu_state/software/blas/product.h"

namespace cropdl::blas {
namespace {

template <class T>
T* first_of(T* pointer, int64_t n, int64_t step) {
  return step < 0 ? pointer - (n - 1) * step : pointer;
}

template <class T>
cublasStatus_t gemv(cublasHandle_t handle, cublasOperation_t is, int64_t m, int64_t n, const T* alpha,
                    const T* a, int64_t lda, const T* x, int64_t incx, const T* beta, T* y, int64_t incy) {
  if (cublasStatus_t status = check(handle)) return status;
  if (!is_valid(is) || m < 0 || n < 0 || lda < std::max<int64_t>(1, m) || !incx || !incy)
    return CUBLAS_STATUS_INVALID_VALUE;
  if (!m || !n) return CUBLAS_STATUS_SUCCESS;
  if (!alpha || !beta) return CUBLAS_STATUS_INVALID_VALUE;
  Scalar<T> factor(handle, alpha), kept(handle, beta);
  return enqueue_guarded(handle, "cublasGemv", [=] {
    int64_t rows = is == CUBLAS_OP_N ? m : n, columns = is == CUBLAS_OP_N ? n : m;
    T scale = factor.get(), keep = kept.get();
    may_read(a, elements_of_matrix(m, n, lda));
    may_read(x, elements_of_vector(columns, incx));
    may_write(y, elements_of_vector(rows, incy));
    const T* from = first_of(x, columns, incx);
    T* to = first_of(y, rows, incy);
    for (int64_t row = 0; row < rows; row++) {
      T sum{};
      for (int64_t column = 0; column < columns; column++) {
        T element = is == CUBLAS_OP_N ? a[column * lda + row] : a[row * lda + column];
        sum += (is == CUBLAS_OP_C ? conjugate(element) : element) * from[column * incx];
      }
      to[row * incy] = keep == T{} ? scale * sum : scale * sum + keep * to[row * incy];
    }
  });
}

template <bool kConjugated, class T>
cublasStatus_t ger(cublasHandle_t handle, int64_t m, int64_t n, const T* alpha, const T* x, int64_t incx,
                   const T* y, int64_t incy, T* a, int64_t lda) {
  if (cublasStatus_t status = check(handle)) return status;
  if (m < 0 || n < 0 || !incx || !incy || lda < std::max<int64_t>(1, m)) return CUBLAS_STATUS_INVALID_VALUE;
  if (!m || !n) return CUBLAS_STATUS_SUCCESS;
  if (!alpha) return CUBLAS_STATUS_INVALID_VALUE;
  Scalar<T> factor(handle, alpha);
  return enqueue_guarded(handle, "cublasGer", [=] {
    T scale = factor.get();
    may_read(x, elements_of_vector(m, incx));
    may_read(y, elements_of_vector(n, incy));
    may_write(a, elements_of_matrix(m, n, lda));
    const T *left = first_of(x, m, incx), *right = first_of(y, n, incy);
    for (int64_t column = 0; column < n; column++) {
      T value = scale * (kConjugated ? conjugate(right[column * incy]) : right[column * incy]);
      for (int64_t row = 0; row < m; row++) a[column * lda + row] += left[row * incx] * value;
    }
  });
}

// y = alpha A x + beta y, from A's stored half; kHermitian: the other half is its conjugate.
template <bool kHermitian, class T>
cublasStatus_t symv(cublasHandle_t handle, cublasFillMode_t uplo, int64_t n, const T* alpha, const T* a,
                    int64_t lda, const T* x, int64_t incx, const T* beta, T* y, int64_t incy) {
  if (cublasStatus_t status = check(handle)) return status;
  if (!is_valid(uplo) || n < 0 || lda < std::max<int64_t>(1, n) || !incx || !incy)
    return CUBLAS_STATUS_INVALID_VALUE;
  if (!n) return CUBLAS_STATUS_SUCCESS;
  if (!alpha || !beta) return CUBLAS_STATUS_INVALID_VALUE;
  Scalar<T> factor(handle, alpha), kept(handle, beta);
  return enqueue_guarded(handle, "cublasSymv", [=] {
    T scale = factor.get(), keep = kept.get();
    may_read(a, elements_of_matrix(n, n, lda));
    may_read(x, elements_of_vector(n, incx));
    may_write(y, elements_of_vector(n, incy));
    const T* from = first_of(x, n, incx);
    T* to = first_of(y, n, incy);
    for (int64_t row = 0; row < n; row++) {
      T sum{};
      for (int64_t column = 0; column < n; column++) {
        bool stored = uplo == CUBLAS_FILL_MODE_LOWER ? row >= column : row <= column;
        T element = stored ? a[column * lda + row] : a[row * lda + column];
        if (kHermitian && !stored) element = conjugate(element);
        if (kHermitian && row == column) element = (element + conjugate(element)) / static_cast<T>(2);
        sum += element * from[column * incx];
      }
      to[row * incy] = keep == T{} ? scale * sum : scale * sum + keep * to[row * incy];
    }
  });
}

// x = op(A) x, or (kSolves) solves op(A) x = b.
template <bool kSolves, class T>
cublasStatus_t triangular(cublasHandle_t handle, cublasFillMode_t uplo, cublasOperation_t is,
                          cublasDiagType_t diagonal, int64_t n, const T* a, int64_t lda, T* x, int64_t incx) {
  if (cublasStatus_t status = check(handle)) return status;
  if (!is_valid(uplo) || !is_valid(is) || n < 0 || lda < std::max<int64_t>(1, n) || !incx)
    return CUBLAS_STATUS_INVALID_VALUE;
  if (!n) return CUBLAS_STATUS_SUCCESS;
  return enqueue_guarded(handle, kSolves ? "cublasTrsv" : "cublasTrmv", [=] {
    may_read(a, elements_of_matrix(n, n, lda));
    may_write(x, elements_of_vector(n, incx));
    T* v = first_of(x, n, incx);
    auto element = [&](int64_t row, int64_t column) {
      if (is == CUBLAS_OP_N) return a[column * lda + row];
      return is == CUBLAS_OP_C ? conjugate(a[row * lda + column]) : a[row * lda + column];
    };
    bool lower = (uplo == CUBLAS_FILL_MODE_LOWER) == (is == CUBLAS_OP_N);  // of op(A)
    bool downwards = kSolves == lower;  // so that values still needed are not overwritten
    for (int64_t i = 0; i < n; i++) {
      int64_t row = downwards ? i : n - 1 - i;
      T value = v[row * incx];
      if (!kSolves && diagonal != CUBLAS_DIAG_UNIT) value = element(row, row) * value;
      for (int64_t column = lower ? 0 : row + 1; column < (lower ? row : n); column++) {
        T part = element(row, column) * v[column * incx];
        value = kSolves ? value - part : value + part;
      }
      if (kSolves && diagonal != CUBLAS_DIAG_UNIT) value = value / element(row, row);
      v[row * incx] = value;
    }
  });
}

// A += alpha x x^T (kHermitian: x^H, real alpha), in the stored half.
template <bool kHermitian, class T, class S>
cublasStatus_t syr(cublasHandle_t handle, cublasFillMode_t uplo, int64_t n, const S* alpha, const T* x,
                   int64_t incx, T* a, int64_t lda) {
  if (cublasStatus_t status = check(handle)) return status;
  if (!is_valid(uplo) || n < 0 || lda < std::max<int64_t>(1, n) || !incx) return CUBLAS_STATUS_INVALID_VALUE;
  if (!n) return CUBLAS_STATUS_SUCCESS;
  if (!alpha) return CUBLAS_STATUS_INVALID_VALUE;
  Scalar<S> factor(handle, alpha);
  return enqueue_guarded(handle, "cublasSyr", [=] {
    S scale = factor.get();
    may_read(x, elements_of_vector(n, incx));
    may_write(a, elements_of_matrix(n, n, lda));
    const T* v = first_of(x, n, incx);
    for (int64_t column = 0; column < n; column++) {
      T value = scale * (kHermitian ? conjugate(v[column * incx]) : v[column * incx]);
      bool lower = uplo == CUBLAS_FILL_MODE_LOWER;
      for (int64_t row = lower ? column : 0; row < (lower ? n : column + 1); row++) {
        T sum = a[column * lda + row] + v[row * incx] * value;
        if constexpr (kHermitian && !std::is_floating_point_v<T>)
          if (row == column) sum = sum.real();
        a[column * lda + row] = sum;
      }
    }
  });
}

}  // namespace
}  // namespace cropdl::blas

using namespace cropdl::blas;  // NOLINT

#define MATRIX_VECTOR(I, SUFFIX, X, T)                                                                     \
  cublasStatus_t cublas##X##gemv_v2##SUFFIX(cublasHandle_t h, cublasOperation_t is, I m, I n,              \
                                            const T* alpha, const T* a, I lda, const T* x, I incx,         \
                                            const T* beta, T* y, I incy) {                                 \
    return gemv(h, is, m, n, own(alpha), own(a), lda, own(x), incx, own(beta), own(y), incy);              \
  }                                                                                                        \
  cublasStatus_t cublas##X##symv_v2##SUFFIX(cublasHandle_t h, cublasFillMode_t uplo, I n, const T* alpha,  \
                                            const T* a, I lda, const T* x, I incx, const T* beta, T* y,    \
                                            I incy) {                                                      \
    return symv<false>(h, uplo, n, own(alpha), own(a), lda, own(x), incx, own(beta), own(y), incy);        \
  }                                                                                                        \
  cublasStatus_t cublas##X##trmv_v2##SUFFIX(cublasHandle_t h, cublasFillMode_t uplo, cublasOperation_t is, \
                                            cublasDiagType_t diag, I n, const T* a, I lda, T* x, I incx) { \
    return triangular<false>(h, uplo, is, diag, n, own(a), lda, own(x), incx);                             \
  }                                                                                                        \
  cublasStatus_t cublas##X##trsv_v2##SUFFIX(cublasHandle_t h, cublasFillMode_t uplo, cublasOperation_t is, \
                                            cublasDiagType_t diag, I n, const T* a, I lda, T* x, I incx) { \
    return triangular<true>(h, uplo, is, diag, n, own(a), lda, own(x), incx);                              \
  }                                                                                                        \
  cublasStatus_t cublas##X##syr_v2##SUFFIX(cublasHandle_t h, cublasFillMode_t uplo, I n, const T* alpha,   \
                                           const T* x, I incx, T* a, I lda) {                              \
    return syr<false>(h, uplo, n, own(alpha), own(x), incx, own(a), lda);                                  \
  }

#define GER(I, SUFFIX, NAME, CONJUGATED, T)                                                                \
  cublasStatus_t cublas##NAME##_v2##SUFFIX(cublasHandle_t h, I m, I n, const T* alpha, const T* x, I incx, \
                                           const T* y, I incy, T* a, I lda) {                              \
    return ger<CONJUGATED>(h, m, n, own(alpha), own(x), incx, own(y), incy, own(a), lda);                  \
  }

#define HERMITIAN(I, SUFFIX, X, T, R)                                                                     \
  cublasStatus_t cublas##X##hemv_v2##SUFFIX(cublasHandle_t h, cublasFillMode_t uplo, I n, const T* alpha, \
                                            const T* a, I lda, const T* x, I incx, const T* beta, T* y,   \
                                            I incy) {                                                     \
    return symv<true>(h, uplo, n, own(alpha), own(a), lda, own(x), incx, own(beta), own(y), incy);        \
  }                                                                                                       \
  cublasStatus_t cublas##X##her_v2##SUFFIX(cublasHandle_t h, cublasFillMode_t uplo, I n, const R* alpha,  \
                                           const T* x, I incx, T* a, I lda) {                             \
    return syr<true>(h, uplo, n, alpha, own(x), incx, own(a), lda);                                       \
  }

extern "C" {
CROPDL_WITH_BOTH_INTEGERS(MATRIX_VECTOR, S, float)
CROPDL_WITH_BOTH_INTEGERS(MATRIX_VECTOR, D, double)
CROPDL_WITH_BOTH_INTEGERS(MATRIX_VECTOR, C, cuComplex)
CROPDL_WITH_BOTH_INTEGERS(MATRIX_VECTOR, Z, cuDoubleComplex)
CROPDL_WITH_BOTH_INTEGERS(GER, Sger, false, float)
CROPDL_WITH_BOTH_INTEGERS(GER, Dger, false, double)
CROPDL_WITH_BOTH_INTEGERS(GER, Cgeru, false, cuComplex)
CROPDL_WITH_BOTH_INTEGERS(GER, Cgerc, true, cuComplex)
CROPDL_WITH_BOTH_INTEGERS(GER, Zgeru, false, cuDoubleComplex)
CROPDL_WITH_BOTH_INTEGERS(GER, Zgerc, true, cuDoubleComplex)
CROPDL_WITH_BOTH_INTEGERS(HERMITIAN, C, cuComplex, float)
CROPDL_WITH_BOTH_INTEGERS(HERMITIAN, Z, cuDoubleComplex, double)
}  // extern "C"

#undef MATRIX_VECTOR
#undef GER
#undef HERMITIAN
