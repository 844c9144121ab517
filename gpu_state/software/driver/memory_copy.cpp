// cuMemcpy… of rows, rectangles and boxes. device/copy_calls.cpp decides what each waits for. Source: CUDA
// Driver API 13.0, "Memory Management".
#include <cuda.h>

#include "gpu_state/software/device/context.h"
#include "gpu_state/software/device/copies.h"
#include "gpu_state/software/device/device.h"
#include "gpu_state/software/driver/per_thread.h"

using namespace cropdl;

namespace {

constexpr CUmemorytype kHost = CU_MEMORYTYPE_HOST, kDevice = CU_MEMORYTYPE_DEVICE,
                       kAny = CU_MEMORYTYPE_UNIFIED, kArray = CU_MEMORYTYPE_ARRAY;

CUresult copy(const CUDA_MEMCPY3D& what, CUstream stream, bool asynchronous) {
  CUcontext context;
  if (CUresult error = device::enter(&context)) return error;
  device::CopyWork work;
  work.copy = what;
  return device::copy(std::move(work), stream, asynchronous);
}

uint64_t at(const void* host) { return reinterpret_cast<uint64_t>(host); }

CUresult row(CUmemorytype to, uint64_t destination, CUmemorytype from, uint64_t source, size_t size,
             CUstream stream, bool asynchronous) {
  return copy(device::row_copy(to, destination, from, source, size), stream, asynchronous);
}

// One row between an array and plain memory, or another array; null: plain memory.
CUresult array_row(CUarray destination, CUmemorytype to, uint64_t to_at, CUarray source, CUmemorytype from,
                   uint64_t from_at, size_t size, CUstream stream, bool asynchronous) {
  CUDA_MEMCPY3D what = device::row_copy(to, to_at, from, from_at, size);
  if (destination) {
    what.dstMemoryType = kArray;
    what.dstArray = destination;
    what.dstXInBytes = to_at;
  }
  if (source) {
    what.srcMemoryType = kArray;
    what.srcArray = source;
    what.srcXInBytes = from_at;
  }
  if ((to == kArray && !destination) || (from == kArray && !source)) return CUDA_ERROR_INVALID_HANDLE;
  return copy(what, stream, asynchronous);
}

CUresult rectangle(const CUDA_MEMCPY2D* flat, CUstream stream, bool asynchronous) {
  if (!flat) return CUDA_ERROR_INVALID_VALUE;
  CUDA_MEMCPY3D what{};
  what.srcXInBytes = flat->srcXInBytes;
  what.srcY = flat->srcY;
  what.srcMemoryType = flat->srcMemoryType;
  what.srcHost = flat->srcHost;
  what.srcDevice = flat->srcDevice;
  what.srcArray = flat->srcArray;
  what.srcPitch = flat->srcPitch ? flat->srcPitch : flat->srcXInBytes + flat->WidthInBytes;
  what.srcHeight = flat->srcY + flat->Height;
  what.dstXInBytes = flat->dstXInBytes;
  what.dstY = flat->dstY;
  what.dstMemoryType = flat->dstMemoryType;
  what.dstHost = flat->dstHost;
  what.dstDevice = flat->dstDevice;
  what.dstArray = flat->dstArray;
  what.dstPitch = flat->dstPitch ? flat->dstPitch : flat->dstXInBytes + flat->WidthInBytes;
  what.dstHeight = flat->dstY + flat->Height;
  what.WidthInBytes = flat->WidthInBytes;
  what.Height = flat->Height;
  what.Depth = 1;
  return copy(what, stream, asynchronous);
}

CUresult box(const CUDA_MEMCPY3D* what, CUstream stream, bool asynchronous) {
  if (!what || what->reserved0 || what->reserved1) return CUDA_ERROR_INVALID_VALUE;
  return copy(*what, stream, asynchronous);
}

CUresult check_peers(CUcontext destination, CUcontext source) {
  if (CUresult error = device::check(destination)) return error;
  return device::check(source);
}

CUresult peer_row(CUdeviceptr destination, CUcontext to, CUdeviceptr source, CUcontext from, size_t size,
                  CUstream stream, bool asynchronous) {
  CUcontext context;
  if (CUresult error = device::enter(&context)) return error;
  if (CUresult error = check_peers(to, from)) return error;
  device::CopyWork work;
  work.copy = device::row_copy(kDevice, destination, kDevice, source, size);
  work.source = from;
  work.destination = to;
  return device::copy(std::move(work), stream, asynchronous);
}

CUresult peer_box(const CUDA_MEMCPY3D_PEER* peer, CUstream stream, bool asynchronous) {
  CUcontext context;
  if (CUresult error = device::enter(&context)) return error;
  if (!peer) return CUDA_ERROR_INVALID_VALUE;
  // The contexts matter only for device pointers.
  for (auto [type, of] :
       {std::pair(peer->srcMemoryType, peer->srcContext), std::pair(peer->dstMemoryType, peer->dstContext)})
    if (type == kDevice)
      if (CUresult error = device::check(of)) return error;
  device::CopyWork work;
  CUDA_MEMCPY3D& what = work.copy;
  what.srcXInBytes = peer->srcXInBytes;
  what.srcY = peer->srcY;
  what.srcZ = peer->srcZ;
  what.srcLOD = peer->srcLOD;
  what.srcMemoryType = peer->srcMemoryType;
  what.srcHost = peer->srcHost;
  what.srcDevice = peer->srcDevice;
  what.srcArray = peer->srcArray;
  what.srcPitch = peer->srcPitch;
  what.srcHeight = peer->srcHeight;
  what.dstXInBytes = peer->dstXInBytes;
  what.dstY = peer->dstY;
  what.dstZ = peer->dstZ;
  what.dstLOD = peer->dstLOD;
  what.dstMemoryType = peer->dstMemoryType;
  what.dstHost = peer->dstHost;
  what.dstDevice = peer->dstDevice;
  what.dstArray = peer->dstArray;
  what.dstPitch = peer->dstPitch;
  what.dstHeight = peer->dstHeight;
  what.WidthInBytes = peer->WidthInBytes;
  what.Height = peer->Height;
  what.Depth = peer->Depth;
  work.source = peer->srcContext;
  work.destination = peer->dstContext;
  return device::copy(std::move(work), stream, asynchronous);
}

}  // namespace

extern "C" {

CROPDL_CALL_WITHOUT_STREAM(cuMemcpy, (CUdeviceptr to, CUdeviceptr from, size_t size),
                           row(kAny, to, kAny, from, size, stream, false))
CROPDL_CALL_WITH_STREAM(cuMemcpyAsync, (CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream),
                        row(kAny, to, kAny, from, size, stream, true))
CROPDL_CALL_WITHOUT_STREAM(cuMemcpyHtoD_v2, (CUdeviceptr to, const void* from, size_t size),
                           row(kDevice, to, kHost, at(from), size, stream, false))
CROPDL_CALL_WITH_STREAM(cuMemcpyHtoDAsync_v2,
                        (CUdeviceptr to, const void* from, size_t size, CUstream stream),
                        row(kDevice, to, kHost, at(from), size, stream, true))
CROPDL_CALL_WITHOUT_STREAM(cuMemcpyDtoH_v2, (void* to, CUdeviceptr from, size_t size),
                           row(kHost, at(to), kDevice, from, size, stream, false))
CROPDL_CALL_WITH_STREAM(cuMemcpyDtoHAsync_v2, (void* to, CUdeviceptr from, size_t size, CUstream stream),
                        row(kHost, at(to), kDevice, from, size, stream, true))
CROPDL_CALL_WITHOUT_STREAM(cuMemcpyDtoD_v2, (CUdeviceptr to, CUdeviceptr from, size_t size),
                           row(kDevice, to, kDevice, from, size, stream, false))
CROPDL_CALL_WITH_STREAM(cuMemcpyDtoDAsync_v2,
                        (CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream),
                        row(kDevice, to, kDevice, from, size, stream, true))

CROPDL_CALL_WITHOUT_STREAM(cuMemcpyPeer,
                           (CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context,
                            size_t size),
                           peer_row(to, to_context, from, from_context, size, stream, false))
CROPDL_CALL_WITH_STREAM(cuMemcpyPeerAsync,
                        (CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context,
                         size_t size, CUstream stream),
                        peer_row(to, to_context, from, from_context, size, stream, true))

CROPDL_CALL_WITHOUT_STREAM(cuMemcpyDtoA_v2, (CUarray to, size_t offset, CUdeviceptr from, size_t size),
                           array_row(to, kArray, offset, nullptr, kDevice, from, size, stream, false))
CROPDL_CALL_WITHOUT_STREAM(cuMemcpyAtoD_v2, (CUdeviceptr to, CUarray from, size_t offset, size_t size),
                           array_row(nullptr, kDevice, to, from, kArray, offset, size, stream, false))
CROPDL_CALL_WITHOUT_STREAM(cuMemcpyHtoA_v2, (CUarray to, size_t offset, const void* from, size_t size),
                           array_row(to, kArray, offset, nullptr, kHost, at(from), size, stream, false))
CROPDL_CALL_WITHOUT_STREAM(cuMemcpyAtoH_v2, (void* to, CUarray from, size_t offset, size_t size),
                           array_row(nullptr, kHost, at(to), from, kArray, offset, size, stream, false))
CROPDL_CALL_WITHOUT_STREAM(cuMemcpyAtoA_v2,
                           (CUarray to, size_t to_offset, CUarray from, size_t from_offset, size_t size),
                           array_row(to, kArray, to_offset, from, kArray, from_offset, size, stream, false))
CROPDL_CALL_WITH_STREAM(cuMemcpyHtoAAsync_v2,
                        (CUarray to, size_t offset, const void* from, size_t size, CUstream stream),
                        array_row(to, kArray, offset, nullptr, kHost, at(from), size, stream, true))
CROPDL_CALL_WITH_STREAM(cuMemcpyAtoHAsync_v2,
                        (void* to, CUarray from, size_t offset, size_t size, CUstream stream),
                        array_row(nullptr, kHost, at(to), from, kArray, offset, size, stream, true))

CROPDL_CALL_WITHOUT_STREAM(cuMemcpy2D_v2, (const CUDA_MEMCPY2D* what), rectangle(what, stream, false))
CROPDL_CALL_WITHOUT_STREAM(cuMemcpy2DUnaligned_v2, (const CUDA_MEMCPY2D* what),
                           rectangle(what, stream, false))
CROPDL_CALL_WITH_STREAM(cuMemcpy2DAsync_v2, (const CUDA_MEMCPY2D* what, CUstream stream),
                        rectangle(what, stream, true))
CROPDL_CALL_WITHOUT_STREAM(cuMemcpy3D_v2, (const CUDA_MEMCPY3D* what), box(what, stream, false))
CROPDL_CALL_WITH_STREAM(cuMemcpy3DAsync_v2, (const CUDA_MEMCPY3D* what, CUstream stream),
                        box(what, stream, true))
CROPDL_CALL_WITHOUT_STREAM(cuMemcpy3DPeer, (const CUDA_MEMCPY3D_PEER* what), peer_box(what, stream, false))
CROPDL_CALL_WITH_STREAM(cuMemcpy3DPeerAsync, (const CUDA_MEMCPY3D_PEER* what, CUstream stream),
                        peer_box(what, stream, true))

}  // extern "C"
