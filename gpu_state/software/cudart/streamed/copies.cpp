// Copies of linear memory and of variables, with and without a stream. Compiled twice (launches.cpp).
#include "gpu_state/software/cudart/copies.h"

#include "gpu_state/software/cudart/runtime.h"

using namespace cropdl::cudart;

namespace {

CUresult copy_now(void* destination, const void* source, size_t count, cudaMemcpyKind kind) {
  switch (kind) {
    case cudaMemcpyHostToDevice:
      return cuMemcpyHtoD(as_device(destination), source, count);
    case cudaMemcpyDeviceToHost:
      return cuMemcpyDtoH(destination, as_device(source), count);
    case cudaMemcpyDeviceToDevice:
      return cuMemcpyDtoD(as_device(destination), as_device(source), count);
    default:
      return cuMemcpy(as_device(destination), as_device(source), count);
  }
}

CUresult copy_later(void* destination, const void* source, size_t count, cudaMemcpyKind kind,
                    CUstream stream) {
  switch (kind) {
    case cudaMemcpyHostToDevice:
      return cuMemcpyHtoDAsync(as_device(destination), source, count, stream);
    case cudaMemcpyDeviceToHost:
      return cuMemcpyDtoHAsync(destination, as_device(source), count, stream);
    case cudaMemcpyDeviceToDevice:
      return cuMemcpyDtoDAsync(as_device(destination), as_device(source), count, stream);
    default:
      return cuMemcpyAsync(as_device(destination), as_device(source), count, stream);
  }
}

// The driver has no one-row copy in which both sides are stated to be the host's.
cudaError_t between_hosts(void* destination, const void* source, size_t count, CUDA_MEMCPY2D* copy) {
  return as_copy(destination, count, source, count, count, 1, cudaMemcpyHostToHost, copy);
}

}  // namespace

extern "C" {

cudaError_t cudaMemcpy(void* destination, const void* source, size_t count, cudaMemcpyKind kind) {
  return run([&] {
    Sides sides;
    if (const cudaError_t error = sides_of(kind, &sides); error != cudaSuccess) return error;
    if (kind != cudaMemcpyHostToHost || count == 0)
      return as_error(copy_now(destination, source, count, kind));
    CUDA_MEMCPY2D copy;
    const cudaError_t error = between_hosts(destination, source, count, &copy);
    return error == cudaSuccess ? as_error(cuMemcpy2D(&copy)) : error;
  });
}

cudaError_t cudaMemcpyAsync(void* destination, const void* source, size_t count, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  return run([&] {
    Sides sides;
    if (const cudaError_t error = sides_of(kind, &sides); error != cudaSuccess) return error;
    if (kind != cudaMemcpyHostToHost || count == 0)
      return as_error(copy_later(destination, source, count, kind, stream));
    CUDA_MEMCPY2D copy;
    const cudaError_t error = between_hosts(destination, source, count, &copy);
    return error == cudaSuccess ? as_error(cuMemcpy2DAsync(&copy, stream)) : error;
  });
}

cudaError_t cudaMemcpyToSymbol(const void* symbol, const void* source, size_t count, size_t offset,
                               cudaMemcpyKind kind) {
  return run([&] {
    CUdeviceptr address = 0;
    const cudaError_t error = part_of_variable(symbol, offset, count, kind, true, &address);
    return error == cudaSuccess ? as_error(copy_now(as_pointer(address), source, count, kind)) : error;
  });
}

cudaError_t cudaMemcpyFromSymbol(void* destination, const void* symbol, size_t count, size_t offset,
                                 cudaMemcpyKind kind) {
  return run([&] {
    CUdeviceptr address = 0;
    const cudaError_t error = part_of_variable(symbol, offset, count, kind, false, &address);
    return error == cudaSuccess ? as_error(copy_now(destination, as_pointer(address), count, kind)) : error;
  });
}

cudaError_t cudaMemcpyToSymbolAsync(const void* symbol, const void* source, size_t count, size_t offset,
                                    cudaMemcpyKind kind, cudaStream_t stream) {
  return run([&] {
    CUdeviceptr address = 0;
    const cudaError_t error = part_of_variable(symbol, offset, count, kind, true, &address);
    return error == cudaSuccess ? as_error(copy_later(as_pointer(address), source, count, kind, stream))
                                : error;
  });
}

cudaError_t cudaMemcpyFromSymbolAsync(void* destination, const void* symbol, size_t count, size_t offset,
                                      cudaMemcpyKind kind, cudaStream_t stream) {
  return run([&] {
    CUdeviceptr address = 0;
    const cudaError_t error = part_of_variable(symbol, offset, count, kind, false, &address);
    return error == cudaSuccess ? as_error(copy_later(destination, as_pointer(address), count, kind, stream))
                                : error;
  });
}

cudaError_t cudaMemcpyBatchAsync(void* const* destinations, const void* const* sources, const size_t* sizes,
                                 size_t count, cudaMemcpyAttributes* attributes, size_t* indices,
                                 size_t attribute_count, cudaStream_t stream) {
  return run([&] {
    return cuMemcpyBatchAsync(reinterpret_cast<CUdeviceptr*>(const_cast<void**>(destinations)),
                              reinterpret_cast<CUdeviceptr*>(const_cast<void**>(sources)),
                              const_cast<size_t*>(sizes), count, same<CUmemcpyAttributes>(attributes),
                              indices, attribute_count, stream);
  });
}
}
