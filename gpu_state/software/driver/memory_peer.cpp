// Access of kernels to another device's memory. Source: CUDA Driver API 13.0, "Peer Context Memory Access".
// Access granted to one context holds for all contexts of its device.
#include <cuda.h>

#include "gpu_state/software/device/context.h"
#include "gpu_state/software/device/device.h"
#include "gpu_state/software/device/memory.h"

using namespace cropdl;

extern "C" {

CUresult cuDeviceCanAccessPeer(int* can, CUdevice one, CUdevice peer) {
  if (CUresult error = device::initialized()) return error;
  if (!can) return CUDA_ERROR_INVALID_VALUE;
  if (!device::find(one) || !device::find(peer)) return CUDA_ERROR_INVALID_DEVICE;
  *can = one != peer;
  return CUDA_SUCCESS;
}

CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned flags) {
  CUcontext context;
  if (CUresult error = device::enter(&context)) return error;
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  if (CUresult error = device::check(peer)) return error;
  if (peer->device == context->device) return CUDA_ERROR_INVALID_DEVICE;
  device::Memory& own = context->device->memory();
  if (own.peer_allowed(peer->device->memory())) return CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
  own.allow_peer(peer->device->memory(), true);
  return CUDA_SUCCESS;
}

CUresult cuCtxDisablePeerAccess(CUcontext peer) {
  CUcontext context;
  if (CUresult error = device::enter(&context)) return error;
  if (CUresult error = device::check(peer)) return error;
  device::Memory& own = context->device->memory();
  if (peer->device == context->device || !own.peer_allowed(peer->device->memory()))
    return CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
  own.allow_peer(peer->device->memory(), false);
  return CUDA_SUCCESS;
}

}  // extern "C"
