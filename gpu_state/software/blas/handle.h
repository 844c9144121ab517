// cublasHandle_t, and how a function of cuBLAS becomes work of its stream. The host's side; any thread,
// though a handle must not be changed by one thread while another uses it (cuBLAS documentation, "Thread
// Safety").
#pragma once

#include <cublas_v2.h>
#include <cuda.h>

#include <complex>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>

#include "gpu_state/software/device/library_work.h"

struct cublasContext {
  CUstream stream = nullptr;
  cublasPointerMode_t pointer_mode = CUBLAS_POINTER_MODE_HOST;
  cublasAtomicsMode_t atomics_mode = CUBLAS_ATOMICS_NOT_ALLOWED;
  cublasMath_t math_mode = CUBLAS_DEFAULT_MATH;
  int multiprocessors = 0;
};

namespace cropdl::blas {

// Whether the handle lives: else CUBLAS_STATUS_NOT_INITIALIZED.
cublasStatus_t check(cublasHandle_t handle);
cublasStatus_t status_of(CUresult result);
const char* name_of(cublasStatus_t status);  // CUBLAS_STATUS_…
const char* text_of(cublasStatus_t status);  // for people
// cuBLAS's version, part by part: cuBLASLt's is the same.
cublasStatus_t property_of_version(libraryPropertyType type, int* value);

// Runs work() in stream order; it returns a CUresult, and touches memory only after it has checked it.
template <class F>
cublasStatus_t enqueue(CUstream stream, const char* name, F work) {
  auto* kept = new F(std::move(work));
  CUresult result = cropdl_software_gpu_enqueue(
      stream, name, [](void* data) { return (*static_cast<F*>(data))(); },
      [](void* data) { delete static_cast<F*>(data); }, kept);
  if (result != CUDA_SUCCESS) delete kept;
  return status_of(result);
}

// What a vector or matrix of elements takes up; nothing when it is empty.
inline size_t elements_of_vector(int64_t n, int64_t step) {
  return n <= 0 ? 0 : static_cast<size_t>(1 + (n - 1) * std::abs(step));
}
inline size_t elements_of_matrix(int64_t rows, int64_t columns, int64_t leading) {
  return rows <= 0 || columns <= 0 ? 0 : static_cast<size_t>((columns - 1) * leading + rows);
}

// Whether memory may be touched; throws what is wrong, which `guarded` catches: a work has many such checks
// and one answer.
inline void must_be(const void* pointer, size_t bytes, bool writable) {
  if (!bytes) return;
  CUresult result = cropdl_software_gpu_check(reinterpret_cast<CUdeviceptr>(pointer), bytes, writable);
  if (result != CUDA_SUCCESS) throw result;
}
template <class T>
void may_read(const T* pointer, size_t elements) {
  must_be(pointer, elements * sizeof(T), false);
}
template <class T>
void may_write(T* pointer, size_t elements) {
  must_be(pointer, elements * sizeof(T), true);
}

template <class F>
cublasStatus_t enqueue_guarded(CUstream stream, const char* name, F work) {
  return enqueue(stream, name, [work = std::move(work)]() mutable -> CUresult {
    try {
      work();
      return CUDA_SUCCESS;
    } catch (CUresult wrong) {
      return wrong;
    }
  });
}

template <class F>
cublasStatus_t enqueue_guarded(cublasHandle_t handle, const char* name, F work) {
  return enqueue_guarded(handle->stream, name, std::move(work));
}

// alpha, beta …: read at the call or, in device pointer mode, when the work runs.
template <class T>
class Scalar {
 public:
  Scalar(cublasHandle_t handle, const T* pointer)
      : on_device_(handle->pointer_mode == CUBLAS_POINTER_MODE_DEVICE), pointer_(pointer) {
    if (!on_device_) value_ = *pointer;
  }
  T get() const {
    if (!on_device_) return value_;
    may_read(pointer_, 1);
    return *pointer_;
  }

 private:
  bool on_device_;
  const T* pointer_;
  T value_{};
};

// A result: written when the work runs in device pointer mode; in host pointer mode the call waits for it.
template <class T, class F>
cublasStatus_t with_result(cublasHandle_t handle, const char* name, T* result, F compute) {
  if (!result) return CUBLAS_STATUS_INVALID_VALUE;
  if (handle->pointer_mode == CUBLAS_POINTER_MODE_DEVICE)
    return enqueue_guarded(handle, name, [result, compute = std::move(compute)] {
      may_write(result, 1);
      *result = compute();
    });
  auto value = std::make_shared<T>();
  cublasStatus_t status =
      enqueue_guarded(handle, name, [value, compute = std::move(compute)] { *value = compute(); });
  if (status == CUBLAS_STATUS_SUCCESS) status = status_of(cuStreamSynchronize(handle->stream));
  if (status == CUBLAS_STATUS_SUCCESS) *result = *value;
  return status;
}

// cuComplex is two floats, as is std::complex (C++ [complex.numbers]).
template <class T>
struct Own {
  using type = T;
};
template <>
struct Own<cuComplex> {
  using type = std::complex<float>;
};
template <>
struct Own<cuDoubleComplex> {
  using type = std::complex<double>;
};
template <class T>
auto own(const T* pointer) {
  return reinterpret_cast<const typename Own<T>::type*>(pointer);
}
template <class T>
auto own(T* pointer) {
  return reinterpret_cast<typename Own<T>::type*>(pointer);
}

template <class T>
T conjugate(T value) {
  if constexpr (std::is_floating_point_v<T>)
    return value;
  else
    return std::conj(value);
}

}  // namespace cropdl::blas

// Each function is there for int and, with _64 behind its name, for int64_t.
#define CROPDL_WITH_BOTH_INTEGERS(FUNCTION, ...) \
  FUNCTION(int, , __VA_ARGS__) FUNCTION(int64_t, _64, __VA_ARGS__)
