// cublasHandle_t, and how cuBLAS functions become work of its stream. Host side. Any thread, but no thread
// may change a handle while another uses it (cuBLAS documentation, "Thread Safety").
#pragma once

#include <cublas_v2.h>
#include <cuda.h>

#include <complex>
#include <cstdint>
#include <memory>
#include <new>
#include <stdexcept>
#include <type_traits>
#include <utility>

#include "gpu_state/software/device/library_work.h"

struct cublasContext {
  CUcontext context = nullptr;  // in which it was made
  CUstream stream = nullptr;
  cublasPointerMode_t pointer_mode = CUBLAS_POINTER_MODE_HOST;
  cublasAtomicsMode_t atomics_mode = CUBLAS_ATOMICS_NOT_ALLOWED;
  cublasMath_t math_mode = CUBLAS_DEFAULT_MATH;
  int multiprocessors = 0;
};

namespace cropdl::blas {

// The calling thread's context; as with the runtime, a thread without one gets the first device's. Null: no
// device.
CUcontext current_context();

// Whether the handle is valid; otherwise CUBLAS_STATUS_NOT_INITIALIZED.
cublasStatus_t check(cublasHandle_t handle);
// Whether the calling thread is in the handle's context; otherwise CUBLAS_STATUS_EXECUTION_FAILED, as on a
// device (cuBLAS documentation, "cuBLAS Context": the device must stay the same).
cublasStatus_t check_context(cublasHandle_t handle);
cublasStatus_t status_of(CUresult result);
const char* name_of(cublasStatus_t status);  // CUBLAS_STATUS_…
const char* text_of(cublasStatus_t status);  // for users
// The parts of cuBLAS's version, which is also cuBLASLt's.
cublasStatus_t property_of_version(libraryPropertyType type, int* value);

// Runs work() in stream order. It returns a CUresult, and checks memory before it accesses it.
template <class F>
cublasStatus_t enqueue(CUstream stream, const char* name, F work) {
  auto* kept = new F(std::move(work));
  CUresult result = cropdl_software_gpu_enqueue(
      stream, name, [](void* data) { return (*static_cast<F*>(data))(); },
      [](void* data) { delete static_cast<F*>(data); }, kept);
  if (result != CUDA_SUCCESS) delete kept;
  return status_of(result);
}

// Sizes beyond any address space saturate, so that they fail like inaccessible memory; see must_be() for the
// exception.
inline size_t product_of_sizes(size_t a, size_t b) {
  size_t product;
  if (__builtin_mul_overflow(a, b, &product)) throw CUDA_ERROR_ILLEGAL_ADDRESS;
  return product;
}
inline size_t sum_of_sizes(size_t a, size_t b) {
  size_t sum;
  if (__builtin_add_overflow(a, b, &sum)) throw CUDA_ERROR_ILLEGAL_ADDRESS;
  return sum;
}

// The size in memory of a vector or matrix; 0 if empty.
inline size_t elements_of_vector(int64_t n, int64_t step) {
  if (n <= 0) return 0;
  size_t distance = step < 0 ? -static_cast<size_t>(step) : static_cast<size_t>(step);
  return sum_of_sizes(product_of_sizes(static_cast<size_t>(n - 1), distance), 1);
}
inline size_t elements_of_matrix(int64_t rows, int64_t columns, int64_t leading) {
  if (rows <= 0 || columns <= 0) return 0;
  return sum_of_sizes(product_of_sizes(static_cast<size_t>(columns - 1), static_cast<size_t>(leading)),
                      static_cast<size_t>(rows));
}

// Matrix i of a batch. Addresses wrap around, as on a device: memory is checked before access.
template <class T>
T* of_batch(T* first, int64_t i, int64_t stride, size_t size_of_element) {
  return reinterpret_cast<T*>(reinterpret_cast<uintptr_t>(first) +
                              static_cast<uintptr_t>(i) * static_cast<uintptr_t>(stride) * size_of_element);
}

// Checks that memory is accessible; throws the error, which enqueue_guarded() catches, so that many checks
// give one result.
inline void must_be(const void* pointer, size_t bytes, bool writable) {
  if (!bytes) return;
  CUresult result = cropdl_software_gpu_check(reinterpret_cast<CUdeviceptr>(pointer), bytes, writable);
  if (result != CUDA_SUCCESS) throw result;
}
template <class T>
void may_read(const T* pointer, size_t elements) {
  must_be(pointer, product_of_sizes(elements, sizeof(T)), false);  // NOLINT(bugprone-sizeof-expression)
}
template <class T>
void may_write(T* pointer, size_t elements) {
  must_be(pointer, product_of_sizes(elements, sizeof(T)), true);
}

template <class F>
cublasStatus_t enqueue_guarded(CUstream stream, const char* name, F work) {
  return enqueue(stream, name, [work = std::move(work)]() mutable -> CUresult {
    try {
      work();
      return CUDA_SUCCESS;
    } catch (CUresult wrong) {
      return wrong;
    } catch (const std::bad_alloc&) {  // from memory for widened or written-out matrices
      return CUDA_ERROR_OUT_OF_MEMORY;
    } catch (const std::length_error&) {
      return CUDA_ERROR_OUT_OF_MEMORY;
    }
  });
}

template <class F>
cublasStatus_t enqueue_guarded(cublasHandle_t handle, const char* name, F work) {
  if (cublasStatus_t status = check_context(handle)) return status;
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

// Each function exists for int and, with the suffix _64, for int64_t.
#define CROPDL_WITH_BOTH_INTEGERS(FUNCTION, ...) \
  FUNCTION(int, , __VA_ARGS__) FUNCTION(int64_t, _64, __VA_ARGS__)
