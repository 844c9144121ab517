// Symmetric, Hermitian and triangular matrices: the full matrix is written out and multiplied by OpenBLAS;
// systems of equations are solved row by row. Source: cuBLAS documentation, "cuBLAS Level-3 Function
// Reference".
#include <algorithm>
#include <vector>

#include "gpu_state/software/blas/handle.h"
#include "gpu_state/software/blas/product.h"

namespace cropdl::blas {
namespace {

template <class T>
T only_real(T value) {
  if constexpr (std::is_floating_point_v<T>)
    return value;
  else
    return value.real();
}

bool is_stored(cublasFillMode_t uplo, int64_t row, int64_t column) {
  return uplo == CUBLAS_FILL_MODE_LOWER ? row >= column : row <= column;
}

// C = alpha A B + beta C (or B A), A symmetric or Hermitian.
template <bool kHermitian, class T>
cublasStatus_t symm(cublasHandle_t handle, cublasSideMode_t side, cublasFillMode_t uplo, int64_t m, int64_t n,
                    const T* alpha, const T* a, int64_t lda, const T* b, int64_t ldb, const T* beta, T* c,
                    int64_t ldc) {
  if (cublasStatus_t status = check(handle)) return status;
  int64_t order = side == CUBLAS_SIDE_LEFT ? m : n;
  if (!is_valid(side) || !is_valid(uplo) || m < 0 || n < 0 || lda < std::max<int64_t>(1, order) ||
      ldb < std::max<int64_t>(1, m) || ldc < std::max<int64_t>(1, m))
    return CUBLAS_STATUS_INVALID_VALUE;
  if (!m || !n) return CUBLAS_STATUS_SUCCESS;
  if (!alpha || !beta) return CUBLAS_STATUS_INVALID_VALUE;
  if (cublasStatus_t status = check_sizes("cublasSymm", {m, n, lda, ldb, ldc})) return status;
  Scalar<T> factor(handle, alpha), kept(handle, beta);
  return enqueue_guarded(handle, "cublasSymm", [=] {
    may_read(a, elements_of_matrix(order, order, lda));
    may_read(b, elements_of_matrix(m, n, ldb));
    may_write(c, elements_of_matrix(m, n, ldc));
    std::vector<T> whole(static_cast<size_t>(order * order));
    for (int64_t column = 0; column < order; column++)
      for (int64_t row = 0; row < order; row++) {
        T element = is_stored(uplo, row, column) ? a[column * lda + row] : a[row * lda + column];
        if (kHermitian && !is_stored(uplo, row, column)) element = conjugate(element);
        if (kHermitian && row == column) element = only_real(element);
        whole[static_cast<size_t>(column * order + row)] = element;
      }
    if (side == CUBLAS_SIDE_LEFT)
      gemm(Operation::kNone, Operation::kNone, m, n, m, factor.get(), whole.data(), order, b, ldb, kept.get(),
           c, ldc);
    else
      gemm(Operation::kNone, Operation::kNone, m, n, n, factor.get(), b, ldb, whole.data(), order, kept.get(),
           c, ldc);
  });
}

// The stored half of C = alpha op(A) op(A)' + beta C; with kOfTwo, of C = alpha op(A) op(B)' + conj(alpha)
// op(B) op(A)' + beta C. Otherwise B is A.
template <bool kHermitian, bool kOfTwo, class T, class A, class S>
cublasStatus_t rank_k(cublasHandle_t handle, const char* name, cublasFillMode_t uplo, cublasOperation_t is,
                      int64_t n, int64_t k, const A* alpha, const T* a, int64_t lda, const T* b, int64_t ldb,
                      const S* beta, T* c, int64_t ldc) {
  if (cublasStatus_t status = check(handle)) return status;
  int64_t rows = is == CUBLAS_OP_N ? n : k;
  if (!is_valid(uplo) || !is_valid(is) || n < 0 || k < 0 || lda < std::max<int64_t>(1, rows) ||
      ldb < std::max<int64_t>(1, rows) || ldc < std::max<int64_t>(1, n) ||
      (is == (kHermitian ? CUBLAS_OP_T : CUBLAS_OP_C) && !std::is_floating_point_v<T>))
    return CUBLAS_STATUS_INVALID_VALUE;
  if (!n) return CUBLAS_STATUS_SUCCESS;
  if (!alpha || !beta) return CUBLAS_STATUS_INVALID_VALUE;
  if (cublasStatus_t status = check_sizes(name, {n, k, lda, ldb, ldc})) return status;
  Scalar<A> factor(handle, alpha);
  Scalar<S> kept(handle, beta);
  return enqueue_guarded(handle, name, [=] {
    int64_t columns = is == CUBLAS_OP_N ? k : n;
    may_read(a, elements_of_matrix(rows, columns, lda));
    may_read(b, elements_of_matrix(rows, columns, ldb));
    may_write(c, elements_of_matrix(n, n, ldc));
    std::vector<T> sum(static_cast<size_t>(n * n));
    Operation turned = kHermitian ? Operation::kConjugate : Operation::kTranspose;
    Operation left = is == CUBLAS_OP_N ? Operation::kNone : turned,
              right = is == CUBLAS_OP_N ? turned : Operation::kNone;
    T scale = static_cast<T>(factor.get());
    if (k > 0) {
      gemm(left, right, n, n, k, scale, a, lda, b, ldb, T{}, sum.data(), n);
      if (kOfTwo)
        gemm(left, right, n, n, k, kHermitian ? conjugate(scale) : scale, b, ldb, a, lda, static_cast<T>(1),
             sum.data(), n);
    }
    S keep = kept.get();
    for (int64_t column = 0; column < n; column++)
      for (int64_t row = 0; row < n; row++) {
        if (!is_stored(uplo, row, column)) continue;
        T value = sum[static_cast<size_t>(column * n + row)];
        if (keep != S{}) value += keep * c[column * ldc + row];
        c[column * ldc + row] = kHermitian && row == column ? only_real(value) : value;
      }
  });
}

template <class T>
std::vector<T> triangle(cublasFillMode_t uplo, cublasOperation_t is, cublasDiagType_t diagonal, int64_t order,
                        const T* a, int64_t lda) {
  std::vector<T> whole(static_cast<size_t>(order * order));  // op(A)
  for (int64_t column = 0; column < order; column++)
    for (int64_t row = 0; row < order; row++) {
      if (!is_stored(uplo, row, column)) continue;
      T element = row == column && diagonal == CUBLAS_DIAG_UNIT ? static_cast<T>(1) : a[column * lda + row];
      if (is == CUBLAS_OP_C) element = conjugate(element);
      whole[static_cast<size_t>(is == CUBLAS_OP_N ? column * order + row : row * order + column)] = element;
    }
  return whole;
}

bool has_triangular_arguments(cublasSideMode_t side, cublasFillMode_t uplo, cublasOperation_t is,
                              cublasDiagType_t diagonal, int64_t m, int64_t n, int64_t lda, int64_t ldb) {
  int64_t order = side == CUBLAS_SIDE_LEFT ? m : n;
  return is_valid(side) && is_valid(uplo) && is_valid(is) &&
         (diagonal == CUBLAS_DIAG_UNIT || diagonal == CUBLAS_DIAG_NON_UNIT) && m >= 0 && n >= 0 &&
         lda >= std::max<int64_t>(1, order) && ldb >= std::max<int64_t>(1, m);
}

// C = alpha op(A) B, or alpha B op(A); C may be B.
template <class T>
cublasStatus_t trmm(cublasHandle_t handle, cublasSideMode_t side, cublasFillMode_t uplo, cublasOperation_t is,
                    cublasDiagType_t diagonal, int64_t m, int64_t n, const T* alpha, const T* a, int64_t lda,
                    const T* b, int64_t ldb, T* c, int64_t ldc) {
  if (cublasStatus_t status = check(handle)) return status;
  if (!has_triangular_arguments(side, uplo, is, diagonal, m, n, lda, ldb) || ldc < std::max<int64_t>(1, m))
    return CUBLAS_STATUS_INVALID_VALUE;
  if (!m || !n) return CUBLAS_STATUS_SUCCESS;
  if (!alpha) return CUBLAS_STATUS_INVALID_VALUE;
  if (cublasStatus_t status = check_sizes("cublasTrmm", {m, n, lda, ldb, ldc})) return status;
  Scalar<T> factor(handle, alpha);
  return enqueue_guarded(handle, "cublasTrmm", [=] {
    int64_t order = side == CUBLAS_SIDE_LEFT ? m : n;
    may_read(a, elements_of_matrix(order, order, lda));
    may_read(b, elements_of_matrix(m, n, ldb));
    may_write(c, elements_of_matrix(m, n, ldc));
    std::vector<T> whole = triangle(uplo, is, diagonal, order, a, lda), result(static_cast<size_t>(m * n));
    if (side == CUBLAS_SIDE_LEFT)
      gemm(Operation::kNone, Operation::kNone, m, n, m, factor.get(), whole.data(), order, b, ldb, T{},
           result.data(), m);
    else
      gemm(Operation::kNone, Operation::kNone, m, n, n, factor.get(), b, ldb, whole.data(), order, T{},
           result.data(), m);
    for (int64_t column = 0; column < n; column++)
      std::copy_n(result.data() + column * m, m, c + column * ldc);
  });
}

// Solves op(A) X = alpha B, or X op(A) = alpha B; X replaces B.
template <class T>
void solve(cublasSideMode_t side, cublasFillMode_t uplo, cublasOperation_t is, cublasDiagType_t diagonal,
           int64_t m, int64_t n, T alpha, const T* a, int64_t lda, T* b, int64_t ldb) {
  int64_t order = side == CUBLAS_SIDE_LEFT ? m : n, count = side == CUBLAS_SIDE_LEFT ? n : m;
  may_read(a, elements_of_matrix(order, order, lda));
  may_write(b, elements_of_matrix(m, n, ldb));
  std::vector<T> whole = triangle(uplo, is, diagonal, order, a, lda);
  bool left = side == CUBLAS_SIDE_LEFT, lower = (uplo == CUBLAS_FILL_MODE_LOWER) == (is == CUBLAS_OP_N);
  auto element = [&](int64_t row, int64_t column) {
    return whole[static_cast<size_t>(left ? column * order + row : row * order + column)];
  };
  bool downwards = lower == left;  // X op(A) = B is op(A)^T X^T = B^T
  for (int64_t i = 0; i < count; i++) {
    auto x = [&](int64_t row) -> T& { return left ? b[i * ldb + row] : b[row * ldb + i]; };
    for (int64_t step = 0; step < order; step++) {
      int64_t row = downwards ? step : order - 1 - step;
      T value = alpha * x(row);
      for (int64_t column = downwards ? 0 : row + 1; column < (downwards ? row : order); column++)
        value -= element(row, column) * x(column);
      x(row) = value / element(row, row);
    }
  }
}

template <class T>
cublasStatus_t trsm(cublasHandle_t handle, cublasSideMode_t side, cublasFillMode_t uplo, cublasOperation_t is,
                    cublasDiagType_t diagonal, int64_t m, int64_t n, const T* alpha, const T* a, int64_t lda,
                    T* b, int64_t ldb, const T* const* as, T* const* bs, int64_t batch) {
  if (cublasStatus_t status = check(handle)) return status;
  if (!has_triangular_arguments(side, uplo, is, diagonal, m, n, lda, ldb) || batch < 0)
    return CUBLAS_STATUS_INVALID_VALUE;
  if (!m || !n || !batch) return CUBLAS_STATUS_SUCCESS;
  if (!alpha) return CUBLAS_STATUS_INVALID_VALUE;
  Scalar<T> factor(handle, alpha);
  return enqueue_guarded(handle, "cublasTrsm", [=] {
    T scale = factor.get();
    if (!as) return solve(side, uplo, is, diagonal, m, n, scale, a, lda, b, ldb);
    may_read(as, static_cast<size_t>(batch));
    may_read(bs, static_cast<size_t>(batch));
    for (int64_t i = 0; i < batch; i++) solve(side, uplo, is, diagonal, m, n, scale, as[i], lda, bs[i], ldb);
  });
}

}  // namespace
}  // namespace cropdl::blas

using namespace cropdl::blas;  // NOLINT

#define SYMMETRIC(I, SUFFIX, X, T)                                                                           \
  cublasStatus_t cublas##X##symm_v2##SUFFIX(cublasHandle_t h, cublasSideMode_t side, cublasFillMode_t uplo,  \
                                            I m, I n, const T* alpha, const T* a, I lda, const T* b, I ldb,  \
                                            const T* beta, T* c, I ldc) {                                    \
    return symm<false>(h, side, uplo, m, n, own(alpha), own(a), lda, own(b), ldb, own(beta), own(c), ldc);   \
  }                                                                                                          \
  cublasStatus_t cublas##X##syrk_v2##SUFFIX(cublasHandle_t h, cublasFillMode_t uplo, cublasOperation_t is,   \
                                            I n, I k, const T* alpha, const T* a, I lda, const T* beta,      \
                                            T* c, I ldc) {                                                   \
    return rank_k<false, false>(h, "cublas" #X "syrk", uplo, is, n, k, own(alpha), own(a), lda, own(a), lda, \
                                own(beta), own(c), ldc);                                                     \
  }                                                                                                          \
  cublasStatus_t cublas##X##syr2k_v2##SUFFIX(cublasHandle_t h, cublasFillMode_t uplo, cublasOperation_t is,  \
                                             I n, I k, const T* alpha, const T* a, I lda, const T* b, I ldb, \
                                             const T* beta, T* c, I ldc) {                                   \
    return rank_k<false, true>(h, "cublas" #X "syr2k", uplo, is, n, k, own(alpha), own(a), lda, own(b), ldb, \
                               own(beta), own(c), ldc);                                                      \
  }                                                                                                          \
  cublasStatus_t cublas##X##trmm_v2##SUFFIX(                                                                 \
      cublasHandle_t h, cublasSideMode_t side, cublasFillMode_t uplo, cublasOperation_t is,                  \
      cublasDiagType_t diag, I m, I n, const T* alpha, const T* a, I lda, const T* b, I ldb, T* c, I ldc) {  \
    return trmm(h, side, uplo, is, diag, m, n, own(alpha), own(a), lda, own(b), ldb, own(c), ldc);           \
  }                                                                                                          \
  cublasStatus_t cublas##X##trsm_v2##SUFFIX(cublasHandle_t h, cublasSideMode_t side, cublasFillMode_t uplo,  \
                                            cublasOperation_t is, cublasDiagType_t diag, I m, I n,           \
                                            const T* alpha, const T* a, I lda, T* b, I ldb) {                \
    using O = Own<T>::type;                                                                                  \
    return trsm<O>(h, side, uplo, is, diag, m, n, own(alpha), own(a), lda, own(b), ldb, nullptr, nullptr,    \
                   1);                                                                                       \
  }                                                                                                          \
  cublasStatus_t cublas##X##trsmBatched##SUFFIX(cublasHandle_t h, cublasSideMode_t side,                     \
                                                cublasFillMode_t uplo, cublasOperation_t is,                 \
                                                cublasDiagType_t diag, I m, I n, const T* alpha,             \
                                                const T* const a[], I lda, T* const b[], I ldb, I batch) {   \
    using O = Own<T>::type;                                                                                  \
    if (!a || !b) return CUBLAS_STATUS_INVALID_VALUE;                                                        \
    return trsm<O>(h, side, uplo, is, diag, m, n, own(alpha), nullptr, lda, nullptr, ldb,                    \
                   reinterpret_cast<const O* const*>(a), reinterpret_cast<O* const*>(b), batch);             \
  }

#define HERMITIAN(I, SUFFIX, X, T, R)                                                                        \
  cublasStatus_t cublas##X##hemm_v2##SUFFIX(cublasHandle_t h, cublasSideMode_t side, cublasFillMode_t uplo,  \
                                            I m, I n, const T* alpha, const T* a, I lda, const T* b, I ldb,  \
                                            const T* beta, T* c, I ldc) {                                    \
    return symm<true>(h, side, uplo, m, n, own(alpha), own(a), lda, own(b), ldb, own(beta), own(c), ldc);    \
  }                                                                                                          \
  cublasStatus_t cublas##X##herk_v2##SUFFIX(cublasHandle_t h, cublasFillMode_t uplo, cublasOperation_t is,   \
                                            I n, I k, const R* alpha, const T* a, I lda, const R* beta,      \
                                            T* c, I ldc) {                                                   \
    return rank_k<true, false>(h, "cublas" #X "herk", uplo, is, n, k, alpha, own(a), lda, own(a), lda, beta, \
                               own(c), ldc);                                                                 \
  }                                                                                                          \
  cublasStatus_t cublas##X##her2k_v2##SUFFIX(cublasHandle_t h, cublasFillMode_t uplo, cublasOperation_t is,  \
                                             I n, I k, const T* alpha, const T* a, I lda, const T* b, I ldb, \
                                             const R* beta, T* c, I ldc) {                                   \
    return rank_k<true, true>(h, "cublas" #X "her2k", uplo, is, n, k, own(alpha), own(a), lda, own(b), ldb,  \
                              beta, own(c), ldc);                                                            \
  }

extern "C" {
CROPDL_WITH_BOTH_INTEGERS(SYMMETRIC, S, float)
CROPDL_WITH_BOTH_INTEGERS(SYMMETRIC, D, double)
CROPDL_WITH_BOTH_INTEGERS(SYMMETRIC, C, cuComplex)
CROPDL_WITH_BOTH_INTEGERS(SYMMETRIC, Z, cuDoubleComplex)
CROPDL_WITH_BOTH_INTEGERS(HERMITIAN, C, cuComplex, float)
CROPDL_WITH_BOTH_INTEGERS(HERMITIAN, Z, cuDoubleComplex, double)
}  // extern "C"

#undef SYMMETRIC
#undef HERMITIAN
