// Copies of rows and planes, of arrays and of linear memory. Compiled twice (launches.cpp).
#include <algorithm>

#include "gpu_state/software/cudart/copies.h"
#include "gpu_state/software/cudart/runtime.h"

using namespace cropdl::cudart;

namespace {

// Describes the copy, then makes it, immediately or in the stream.
template <class Describe>
cudaError_t copy_rows(Describe&& describe) {
  return run([&] {
    CUDA_MEMCPY2D copy;
    const cudaError_t error = describe(&copy);
    return error == cudaSuccess ? as_error(cuMemcpy2D(&copy)) : error;
  });
}

template <class Describe>
cudaError_t copy_rows_in(cudaStream_t stream, Describe&& describe) {
  return run([&] {
    CUDA_MEMCPY2D copy;
    const cudaError_t error = describe(&copy);
    return error == cudaSuccess ? as_error(cuMemcpy2DAsync(&copy, stream)) : error;
  });
}

// Splits bytes that continue in the next row when a row of the array is full: part of the first row, whole
// rows, part of the last row. `describe(byte in the other memory, place, width, height)` describes each
// piece.
template <class Copy>
cudaError_t copy_through_rows(ArrayPlace place, size_t count, Copy&& copy) {
  CUDA_ARRAY3D_DESCRIPTOR array = {};
  size_t element = 1;
  CUresult result = cuArray3DGetDescriptor(&array, place.array);
  if (result == CUDA_SUCCESS) result = element_bytes(place.array, &element);
  if (result != CUDA_SUCCESS) return as_error(result);
  const size_t row = array.Width * element;
  if (place.x >= row && count) return cudaErrorInvalidValue;
  size_t done = 0;
  while (done < count) {
    const bool is_whole = place.x == 0 && count - done >= row;
    const size_t width = is_whole ? row : std::min(row - place.x, count - done);
    const size_t height = is_whole ? (count - done) / row : 1;
    const cudaError_t error = copy(done, place, width, height);
    if (error != cudaSuccess) return error;
    done += width * height;
    place.x = 0;
    place.y += height;
  }
  return cudaSuccess;
}

const char* at(const void* pointer, size_t offset) { return static_cast<const char*>(pointer) + offset; }
char* at(void* pointer, size_t offset) { return static_cast<char*>(pointer) + offset; }

template <class Make>
cudaError_t to_array(cudaArray_t destination, size_t x, size_t y, const void* source, size_t count,
                     cudaMemcpyKind kind, Make&& make) {
  return run([&] {
    return copy_through_rows({as_array(destination), x, y}, count,
                             [&](size_t done, ArrayPlace place, size_t width, size_t height) {
                               CUDA_MEMCPY2D copy;
                               const cudaError_t error =
                                   as_copy(place, at(source, done), width, width, height, kind, &copy);
                               return error == cudaSuccess ? as_error(make(copy)) : error;
                             });
  });
}

template <class Make>
cudaError_t from_array(void* destination, cudaArray_const_t source, size_t x, size_t y, size_t count,
                       cudaMemcpyKind kind, Make&& make) {
  return run([&] {
    return copy_through_rows(
        {as_array(source), x, y}, count, [&](size_t done, ArrayPlace place, size_t width, size_t height) {
          CUDA_MEMCPY2D copy;
          const cudaError_t error = as_copy(at(destination, done), width, place, width, height, kind, &copy);
          return error == cudaSuccess ? as_error(make(copy)) : error;
        });
  });
}

}  // namespace

extern "C" {

cudaError_t cudaMemcpy2D(void* destination, size_t destination_pitch, const void* source, size_t source_pitch,
                         size_t width, size_t height, cudaMemcpyKind kind) {
  return copy_rows([&](CUDA_MEMCPY2D* copy) {
    return as_copy(destination, destination_pitch, source, source_pitch, width, height, kind, copy);
  });
}

cudaError_t cudaMemcpy2DAsync(void* destination, size_t destination_pitch, const void* source,
                              size_t source_pitch, size_t width, size_t height, cudaMemcpyKind kind,
                              cudaStream_t stream) {
  return copy_rows_in(stream, [&](CUDA_MEMCPY2D* copy) {
    return as_copy(destination, destination_pitch, source, source_pitch, width, height, kind, copy);
  });
}

cudaError_t cudaMemcpy2DToArray(cudaArray_t destination, size_t x, size_t y, const void* source, size_t pitch,
                                size_t width, size_t height, cudaMemcpyKind kind) {
  return copy_rows([&](CUDA_MEMCPY2D* copy) {
    return as_copy({as_array(destination), x, y}, source, pitch, width, height, kind, copy);
  });
}

cudaError_t cudaMemcpy2DToArrayAsync(cudaArray_t destination, size_t x, size_t y, const void* source,
                                     size_t pitch, size_t width, size_t height, cudaMemcpyKind kind,
                                     cudaStream_t stream) {
  return copy_rows_in(stream, [&](CUDA_MEMCPY2D* copy) {
    return as_copy({as_array(destination), x, y}, source, pitch, width, height, kind, copy);
  });
}

cudaError_t cudaMemcpy2DFromArray(void* destination, size_t pitch, cudaArray_const_t source, size_t x,
                                  size_t y, size_t width, size_t height, cudaMemcpyKind kind) {
  return copy_rows([&](CUDA_MEMCPY2D* copy) {
    return as_copy(destination, pitch, {as_array(source), x, y}, width, height, kind, copy);
  });
}

cudaError_t cudaMemcpy2DFromArrayAsync(void* destination, size_t pitch, cudaArray_const_t source, size_t x,
                                       size_t y, size_t width, size_t height, cudaMemcpyKind kind,
                                       cudaStream_t stream) {
  return copy_rows_in(stream, [&](CUDA_MEMCPY2D* copy) {
    return as_copy(destination, pitch, {as_array(source), x, y}, width, height, kind, copy);
  });
}

cudaError_t cudaMemcpy2DArrayToArray(cudaArray_t destination, size_t destination_x, size_t destination_y,
                                     cudaArray_const_t source, size_t source_x, size_t source_y, size_t width,
                                     size_t height, cudaMemcpyKind kind) {
  return copy_rows([&](CUDA_MEMCPY2D* copy) {
    if (kind != cudaMemcpyDeviceToDevice && kind != cudaMemcpyDefault) return cudaErrorInvalidMemcpyDirection;
    *copy = {};
    copy->srcMemoryType = copy->dstMemoryType = CU_MEMORYTYPE_ARRAY;
    copy->srcArray = as_array(source);
    copy->srcXInBytes = source_x;
    copy->srcY = source_y;
    copy->dstArray = as_array(destination);
    copy->dstXInBytes = destination_x;
    copy->dstY = destination_y;
    copy->WidthInBytes = width;
    copy->Height = height;
    return cudaSuccess;
  });
}

cudaError_t cudaMemcpyToArray(cudaArray_t destination, size_t x, size_t y, const void* source, size_t count,
                              cudaMemcpyKind kind) {
  return to_array(destination, x, y, source, count, kind,
                  [](const CUDA_MEMCPY2D& copy) { return cuMemcpy2D(&copy); });
}

cudaError_t cudaMemcpyToArrayAsync(cudaArray_t destination, size_t x, size_t y, const void* source,
                                   size_t count, cudaMemcpyKind kind, cudaStream_t stream) {
  return to_array(destination, x, y, source, count, kind,
                  [&](const CUDA_MEMCPY2D& copy) { return cuMemcpy2DAsync(&copy, stream); });
}

cudaError_t cudaMemcpyFromArray(void* destination, cudaArray_const_t source, size_t x, size_t y, size_t count,
                                cudaMemcpyKind kind) {
  return from_array(destination, source, x, y, count, kind,
                    [](const CUDA_MEMCPY2D& copy) { return cuMemcpy2D(&copy); });
}

cudaError_t cudaMemcpyFromArrayAsync(void* destination, cudaArray_const_t source, size_t x, size_t y,
                                     size_t count, cudaMemcpyKind kind, cudaStream_t stream) {
  return from_array(destination, source, x, y, count, kind,
                    [&](const CUDA_MEMCPY2D& copy) { return cuMemcpy2DAsync(&copy, stream); });
}

cudaError_t cudaMemcpy3D(const cudaMemcpy3DParms* parms) {
  return run([&] {
    CUDA_MEMCPY3D copy;
    const cudaError_t error = parms ? as_copy(*parms, &copy) : cudaErrorInvalidValue;
    return error == cudaSuccess ? as_error(cuMemcpy3D(&copy)) : error;
  });
}

cudaError_t cudaMemcpy3DAsync(const cudaMemcpy3DParms* parms, cudaStream_t stream) {
  return run([&] {
    CUDA_MEMCPY3D copy;
    const cudaError_t error = parms ? as_copy(*parms, &copy) : cudaErrorInvalidValue;
    return error == cudaSuccess ? as_error(cuMemcpy3DAsync(&copy, stream)) : error;
  });
}

cudaError_t cudaMemcpy3DPeer(const cudaMemcpy3DPeerParms* parms) {
  return run([&] {
    CUDA_MEMCPY3D_PEER copy;
    const cudaError_t error = parms ? as_peer_copy(*parms, &copy) : cudaErrorInvalidValue;
    return error == cudaSuccess ? as_error(cuMemcpy3DPeer(&copy)) : error;
  });
}

cudaError_t cudaMemcpy3DPeerAsync(const cudaMemcpy3DPeerParms* parms, cudaStream_t stream) {
  return run([&] {
    CUDA_MEMCPY3D_PEER copy;
    const cudaError_t error = parms ? as_peer_copy(*parms, &copy) : cudaErrorInvalidValue;
    return error == cudaSuccess ? as_error(cuMemcpy3DPeerAsync(&copy, stream)) : error;
  });
}

cudaError_t cudaMemcpy3DBatchAsync(size_t count, cudaMemcpy3DBatchOp* operations, unsigned long long flags,
                                   cudaStream_t stream) {
  return run(
      [&] { return cuMemcpy3DBatchAsync(count, same<CUDA_MEMCPY3D_BATCH_OP>(operations), flags, stream); });
}
}
