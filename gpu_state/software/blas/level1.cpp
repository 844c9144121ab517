// Vectors: sums run from the first element to the last, in the type of the elements (nrm2 in double, rounded
// at the end). Source of arguments and errors: cuBLAS documentation, "cuBLAS Level-1 Function Reference".
#include <cmath>
#include <type_traits>

#include "gpu_state/software/blas/handle.h"

namespace cropdl::blas {
namespace {

template <class T>
struct RealOf {
  using type = T;
};
template <class T>
struct RealOf<std::complex<T>> {
  using type = T;
};
template <class T>
using Real = typename RealOf<T>::type;

// Element i of a BLAS vector; with a negative step it starts at the end.
template <class T>
struct Elements {
  Elements(T* pointer, int64_t n, int64_t step)
      : first(step < 0 ? pointer - (n - 1) * step : pointer), step(step) {}
  T& operator[](int64_t i) const { return first[i * step]; }
  T* first;
  int64_t step;
};

template <class T>
cublasStatus_t axpy(cublasHandle_t handle, int64_t n, const T* alpha, const T* x, int64_t incx, T* y,
                    int64_t incy) {
  if (cublasStatus_t status = check(handle)) return status;
  if (n <= 0) return CUBLAS_STATUS_SUCCESS;
  if (!alpha || !x || !y) return CUBLAS_STATUS_INVALID_VALUE;
  Scalar<T> factor(handle, alpha);
  return enqueue_guarded(handle, "cublasAxpy", [=] {
    may_read(x, elements_of_vector(n, incx));
    may_write(y, elements_of_vector(n, incy));
    T a = factor.get();
    Elements<const T> from(x, n, incx);
    Elements<T> to(y, n, incy);
    for (int64_t i = 0; i < n; i++) to[i] = a * from[i] + to[i];
  });
}

template <class T, class S>
cublasStatus_t scal(cublasHandle_t handle, int64_t n, const S* alpha, T* x, int64_t incx) {
  if (cublasStatus_t status = check(handle)) return status;
  if (n <= 0 || incx <= 0) return CUBLAS_STATUS_SUCCESS;
  if (!alpha || !x) return CUBLAS_STATUS_INVALID_VALUE;
  Scalar<S> factor(handle, alpha);
  return enqueue_guarded(handle, "cublasScal", [=] {
    may_write(x, elements_of_vector(n, incx));
    S a = factor.get();
    for (int64_t i = 0; i < n; i++) x[i * incx] = a * x[i * incx];
  });
}

template <class T>
cublasStatus_t copy(cublasHandle_t handle, int64_t n, const T* x, int64_t incx, T* y, int64_t incy) {
  if (cublasStatus_t status = check(handle)) return status;
  if (n <= 0) return CUBLAS_STATUS_SUCCESS;
  if (!x || !y) return CUBLAS_STATUS_INVALID_VALUE;
  return enqueue_guarded(handle, "cublasCopy", [=] {
    may_read(x, elements_of_vector(n, incx));
    may_write(y, elements_of_vector(n, incy));
    Elements<const T> from(x, n, incx);
    Elements<T> to(y, n, incy);
    for (int64_t i = 0; i < n; i++) to[i] = from[i];
  });
}

template <class T>
cublasStatus_t swap(cublasHandle_t handle, int64_t n, T* x, int64_t incx, T* y, int64_t incy) {
  if (cublasStatus_t status = check(handle)) return status;
  if (n <= 0) return CUBLAS_STATUS_SUCCESS;
  if (!x || !y) return CUBLAS_STATUS_INVALID_VALUE;
  return enqueue_guarded(handle, "cublasSwap", [=] {
    may_write(x, elements_of_vector(n, incx));
    may_write(y, elements_of_vector(n, incy));
    Elements<T> one(x, n, incx), other(y, n, incy);
    for (int64_t i = 0; i < n; i++) std::swap(one[i], other[i]);
  });
}

template <bool kConjugated, class T>
cublasStatus_t dot(cublasHandle_t handle, int64_t n, const T* x, int64_t incx, const T* y, int64_t incy,
                   T* result) {
  if (cublasStatus_t status = check(handle)) return status;
  return with_result(handle, "cublasDot", result, [=] {
    may_read(x, elements_of_vector(n, incx));
    may_read(y, elements_of_vector(n, incy));
    Elements<const T> one(x, n, incx), other(y, n, incy);
    T sum{};
    for (int64_t i = 0; i < n; i++) sum += (kConjugated ? conjugate(one[i]) : one[i]) * other[i];
    return sum;
  });
}

template <class T>
cublasStatus_t nrm2(cublasHandle_t handle, int64_t n, const T* x, int64_t incx, Real<T>* result) {
  if (cublasStatus_t status = check(handle)) return status;
  return with_result(handle, "cublasNrm2", result, [=]() -> Real<T> {
    if (n <= 0 || incx <= 0) return 0;
    may_read(x, elements_of_vector(n, incx));
    long double sum = 0;  // large enough exponents for the square of any double
    for (int64_t i = 0; i < n; i++) sum += std::norm(std::complex<long double>(x[i * incx]));
    return static_cast<Real<T>>(std::sqrt(sum));
  });
}

template <class T>
Real<T> taxicab(T value) {
  if constexpr (std::is_same_v<T, Real<T>>)
    return std::abs(value);
  else
    return std::abs(value.real()) + std::abs(value.imag());
}

template <class T>
cublasStatus_t asum(cublasHandle_t handle, int64_t n, const T* x, int64_t incx, Real<T>* result) {
  if (cublasStatus_t status = check(handle)) return status;
  return with_result(handle, "cublasAsum", result, [=] {
    Real<T> sum = 0;
    if (n <= 0 || incx <= 0) return sum;
    may_read(x, elements_of_vector(n, incx));
    for (int64_t i = 0; i < n; i++) sum += taxicab(x[i * incx]);
    return sum;
  });
}

// Counts from 1; 0 for an empty vector; the first of equal elements.
template <bool kLargest, class T, class I>
cublasStatus_t extreme(cublasHandle_t handle, int64_t n, const T* x, int64_t incx, I* result) {
  if (cublasStatus_t status = check(handle)) return status;
  return with_result(handle, kLargest ? "cublasIamax" : "cublasIamin", result, [=]() -> I {
    if (n <= 0 || incx <= 0) return 0;
    may_read(x, elements_of_vector(n, incx));
    int64_t best = 0;
    for (int64_t i = 1; i < n; i++) {
      Real<T> value = taxicab(x[i * incx]), so_far = taxicab(x[best * incx]);
      if (kLargest ? value > so_far : value < so_far) best = i;
    }
    return static_cast<I>(best + 1);
  });
}

template <class T, class S>
cublasStatus_t rot(cublasHandle_t handle, int64_t n, T* x, int64_t incx, T* y, int64_t incy, const Real<T>* c,
                   const S* s) {
  if (cublasStatus_t status = check(handle)) return status;
  if (n <= 0) return CUBLAS_STATUS_SUCCESS;
  if (!c || !s || !x || !y) return CUBLAS_STATUS_INVALID_VALUE;
  Scalar<Real<T>> cosine(handle, c);
  Scalar<S> sine(handle, s);
  return enqueue_guarded(handle, "cublasRot", [=] {
    may_write(x, elements_of_vector(n, incx));
    may_write(y, elements_of_vector(n, incy));
    Real<T> cos = cosine.get();
    S sin = sine.get();
    Elements<T> one(x, n, incx), other(y, n, incy);
    for (int64_t i = 0; i < n; i++) {
      T a = one[i], b = other[i];
      one[i] = cos * a + sin * b;
      other[i] = cos * b - conjugate(sin) * a;
    }
  });
}

}  // namespace
}  // namespace cropdl::blas

using namespace cropdl::blas;  // NOLINT

#define VECTOR_FUNCTIONS(I, SUFFIX, X, T)                                                                    \
  cublasStatus_t cublas##X##axpy_v2##SUFFIX(cublasHandle_t h, I n, const T* alpha, const T* x, I incx, T* y, \
                                            I incy) {                                                        \
    return axpy(h, n, own(alpha), own(x), incx, own(y), incy);                                               \
  }                                                                                                          \
  cublasStatus_t cublas##X##scal_v2##SUFFIX(cublasHandle_t h, I n, const T* alpha, T* x, I incx) {           \
    return scal(h, n, own(alpha), own(x), incx);                                                             \
  }                                                                                                          \
  cublasStatus_t cublas##X##copy_v2##SUFFIX(cublasHandle_t h, I n, const T* x, I incx, T* y, I incy) {       \
    return copy(h, n, own(x), incx, own(y), incy);                                                           \
  }                                                                                                          \
  cublasStatus_t cublas##X##swap_v2##SUFFIX(cublasHandle_t h, I n, T* x, I incx, T* y, I incy) {             \
    return swap(h, n, own(x), incx, own(y), incy);                                                           \
  }

#define REDUCTIONS(I, SUFFIX, X, PREFIX, INDEX, T, R)                                                    \
  cublasStatus_t cublas##PREFIX##nrm2_v2##SUFFIX(cublasHandle_t h, I n, const T* x, I incx, R* result) { \
    return nrm2(h, n, own(x), incx, result);                                                             \
  }                                                                                                      \
  cublasStatus_t cublas##PREFIX##asum_v2##SUFFIX(cublasHandle_t h, I n, const T* x, I incx, R* result) { \
    return asum(h, n, own(x), incx, result);                                                             \
  }                                                                                                      \
  cublasStatus_t cublasI##INDEX##amax_v2##SUFFIX(cublasHandle_t h, I n, const T* x, I incx, I* result) { \
    return extreme<true>(h, n, own(x), incx, result);                                                    \
  }                                                                                                      \
  cublasStatus_t cublasI##INDEX##amin_v2##SUFFIX(cublasHandle_t h, I n, const T* x, I incx, I* result) { \
    return extreme<false>(h, n, own(x), incx, result);                                                   \
  }

#define DOT(I, SUFFIX, NAME, CONJUGATED, T)                                                               \
  cublasStatus_t cublas##NAME##_v2##SUFFIX(cublasHandle_t h, I n, const T* x, I incx, const T* y, I incy, \
                                           T* result) {                                                   \
    return dot<CONJUGATED>(h, n, own(x), incx, own(y), incy, own(result));                                \
  }

#define ROT(I, SUFFIX, NAME, T, R, S)                                                                     \
  cublasStatus_t cublas##NAME##_v2##SUFFIX(cublasHandle_t h, I n, T* x, I incx, T* y, I incy, const R* c, \
                                           const S* s) {                                                  \
    return rot(h, n, own(x), incx, own(y), incy, c, own(s));                                              \
  }

#define SCALED_BY_REAL(I, SUFFIX, NAME, T, R)                                                     \
  cublasStatus_t cublas##NAME##_v2##SUFFIX(cublasHandle_t h, I n, const R* alpha, T* x, I incx) { \
    return scal(h, n, alpha, own(x), incx);                                                       \
  }

extern "C" {
CROPDL_WITH_BOTH_INTEGERS(VECTOR_FUNCTIONS, S, float)
CROPDL_WITH_BOTH_INTEGERS(VECTOR_FUNCTIONS, D, double)
CROPDL_WITH_BOTH_INTEGERS(VECTOR_FUNCTIONS, C, cuComplex)
CROPDL_WITH_BOTH_INTEGERS(VECTOR_FUNCTIONS, Z, cuDoubleComplex)
CROPDL_WITH_BOTH_INTEGERS(REDUCTIONS, S, S, s, float, float)
CROPDL_WITH_BOTH_INTEGERS(REDUCTIONS, D, D, d, double, double)
CROPDL_WITH_BOTH_INTEGERS(REDUCTIONS, C, Sc, c, cuComplex, float)
CROPDL_WITH_BOTH_INTEGERS(REDUCTIONS, Z, Dz, z, cuDoubleComplex, double)
CROPDL_WITH_BOTH_INTEGERS(DOT, Sdot, false, float)
CROPDL_WITH_BOTH_INTEGERS(DOT, Ddot, false, double)
CROPDL_WITH_BOTH_INTEGERS(DOT, Cdotu, false, cuComplex)
CROPDL_WITH_BOTH_INTEGERS(DOT, Cdotc, true, cuComplex)
CROPDL_WITH_BOTH_INTEGERS(DOT, Zdotu, false, cuDoubleComplex)
CROPDL_WITH_BOTH_INTEGERS(DOT, Zdotc, true, cuDoubleComplex)
CROPDL_WITH_BOTH_INTEGERS(ROT, Srot, float, float, float)
CROPDL_WITH_BOTH_INTEGERS(ROT, Drot, double, double, double)
CROPDL_WITH_BOTH_INTEGERS(ROT, Crot, cuComplex, float, cuComplex)
CROPDL_WITH_BOTH_INTEGERS(ROT, Csrot, cuComplex, float, float)
CROPDL_WITH_BOTH_INTEGERS(ROT, Zrot, cuDoubleComplex, double, cuDoubleComplex)
CROPDL_WITH_BOTH_INTEGERS(ROT, Zdrot, cuDoubleComplex, double, double)
CROPDL_WITH_BOTH_INTEGERS(SCALED_BY_REAL, Csscal, cuComplex, float)
CROPDL_WITH_BOTH_INTEGERS(SCALED_BY_REAL, Zdscal, cuDoubleComplex, double)
}  // extern "C"

#undef VECTOR_FUNCTIONS
#undef REDUCTIONS
#undef DOT
#undef ROT
#undef SCALED_BY_REAL
