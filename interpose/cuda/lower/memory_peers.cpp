// Access to peers' memory. The driver opens its own allocations, this file the arena's chunks. After a
// restart both are open again: the calls are repeated, and chunks are mapped as before. Source: CUDA Driver
// API 13.0, "Peer Context Memory Access". LH, LH FS base, a thread of the program.
#include "interpose/cuda/lower/contexts.h"
#include "interpose/cuda/lower/memory.h"

using namespace cropdl::cuda;

namespace {

// Kind of state, by which a later call for the same peer replaces it: any number that no other has.
constexpr uint64_t kPeerAccess = 0x7065'6572;

// Opens the arena's memory of `peer` to `device`, and the driver's by `enable`, whose error has precedence.
// If either fails, nothing stays open that was closed before.
template <class Enable, class Disable>
CUresult open(int peer, int device, Enable enable, Disable disable) {
  DeviceMemory* its = device_memory();
  if (!its) return CUDA_ERROR_OUT_OF_MEMORY;
  const bool was_open = its->arena.is_allowed(peer, device);
  const CUresult opened = its->arena.allow_peer(peer, device, true);
  const CUresult error = enable();
  if (error == CUDA_SUCCESS && opened != CUDA_SUCCESS) (void)disable();
  if (error != CUDA_SUCCESS && opened == CUDA_SUCCESS && !was_open)
    (void)its->arena.allow_peer(peer, device, false);
  return error ? error : opened;
}

CUcontext real(CUcontext context) { return rt::real(context, kind::cudaContext); }

// The same key for the runtime and the driver: either may undo the other.
struct PeerKey : rt::Key {
  explicit PeerKey(int peer) { value(peer); }
};

CUresult closed(int peer, int device) {
  rt::undo_state(rt::kOfCurrent, kPeerAccess, PeerKey(peer));
  DeviceMemory* its = device_memory();
  return its ? its->arena.allow_peer(peer, device, false) : CUDA_ERROR_OUT_OF_MEMORY;
}

}  // namespace

void cropdl::cuda::forget_peer(int device) { rt::undo_state_of_devices(kPeerAccess, PeerKey(device)); }

extern "C" {

cudaError_t lower_cudaDeviceEnablePeerAccess(int peer, unsigned flags) {
  return in_runtime([&](int device) {
    if (const CUresult error = open(
            peer, device,
            [&] { return static_cast<CUresult>(CROPDL_CUDART(cudaDeviceEnablePeerAccess)(peer, flags)); },
            [&] { return CROPDL_CUDART(cudaDeviceDisablePeerAccess)(peer); }))
      return error;
    rt::RecipeWriter recipe;
    recipe.value(peer);
    recipe.value(flags);
    rt::keep_state(rt::kOfCurrent, kCudart, cudart::kFn_cudaDeviceEnablePeerAccess, kPeerAccess,
                   PeerKey(peer), recipe);
    return CUDA_SUCCESS;
  });
}
int64_t again_cudaDeviceEnablePeerAccess(rt::Again& from) {
  const auto peer = from.value<int>();
  return CROPDL_CUDART(cudaDeviceEnablePeerAccess)(peer, from.value<unsigned>());
}

cudaError_t lower_cudaDeviceDisablePeerAccess(int peer) {
  return in_runtime([&](int device) {
    const auto error = static_cast<CUresult>(CROPDL_CUDART(cudaDeviceDisablePeerAccess)(peer));
    return error ? error : closed(peer, device);
  });
}

CUresult lower_cuCtxEnablePeerAccess(CUcontext peer, unsigned flags) {
  return in_driver([&](int device) {
    const int its_device = device_of(real(peer));
    if (const CUresult error = open(
            its_device, device, [&] { return CROPDL_DRIVER(cuCtxEnablePeerAccess)(real(peer), flags); },
            [&] { return CROPDL_DRIVER(cuCtxDisablePeerAccess)(real(peer)); }))
      return error;
    rt::RecipeWriter recipe;
    recipe.handle(rt::word_of(peer));
    recipe.value(flags);
    rt::keep_state(rt::kOfCurrent, kDriver, driver::kFn_cuCtxEnablePeerAccess, kPeerAccess,
                   PeerKey(its_device), recipe);
    return CUDA_SUCCESS;
  });
}
int64_t again_cuCtxEnablePeerAccess(rt::Again& from) {
  const auto peer = rt::handle_of<CUcontext>(from.handle());
  return CROPDL_DRIVER(cuCtxEnablePeerAccess)(peer, from.value<unsigned>());
}

CUresult lower_cuCtxDisablePeerAccess(CUcontext peer) {
  return in_driver([&](int device) {
    const CUresult error = CROPDL_DRIVER(cuCtxDisablePeerAccess)(real(peer));
    return error ? error : closed(device_of(real(peer)), device);
  });
}

}  // extern "C"
