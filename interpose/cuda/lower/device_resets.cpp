// Calls that reset a device: the end of its primary context. LH, LH FS base, threads of the program.
#include "interpose/cuda/lower/captures.h"
#include "interpose/cuda/lower/code_order.h"
#include "interpose/cuda/lower/contexts.h"
#include "interpose/cuda/lower/memory.h"
#include "interpose/cuda/lower/variables.h"

using namespace cropdl::cuda;

namespace {

// Drops everything made in a context of the device. Registered code, and code loaded for all contexts, stays:
// the library loads it again itself.
void device_was_reset(int device) {
  for (const uint64_t word : rt::living(kind::ncclComm))
    if (rt::device_of(*rt::slot_of(word)) == device)
      rt::mark_unsaved(kCudart, cudart::kFn_cudaDeviceReset,
                       "the device was reset while NCCL communicators of it were there");
  end_captures_of(device);  // before the handles of their streams are gone
  rt::forget_device(device);
  device_code_is_gone(device);
  heap_has_ended(device);
  forget_memory_of(device);
  forget_peer(device);
}

// `r`: of the call that resets the device.
template <class Result>
Result was_reset(Result r, int device) {
  if (static_cast<int>(r) != 0) return r;
  device_was_reset(device);
  note_no_context_of_thread();
  return r;
}

}  // namespace

extern "C" {

CUresult lower_cuDevicePrimaryCtxRelease(CUdevice device) {
  rt::Call call;
  return release_primary(device, device_was_reset);
}
CUresult lower_cuDevicePrimaryCtxRelease_v2(CUdevice device) {
  return lower_cuDevicePrimaryCtxRelease(device);
}
CUresult lower_cuDevicePrimaryCtxReset(CUdevice device) {
  rt::Call call;
  return was_reset(CROPDL_DRIVER(cuDevicePrimaryCtxReset_v2)(device), device);
}
CUresult lower_cuDevicePrimaryCtxReset_v2(CUdevice device) { return lower_cuDevicePrimaryCtxReset(device); }

cudaError_t lower_cudaDeviceReset() {
  rt::Call call;
  const int device = rt::current_device();
  return was_reset(CROPDL_CUDART(cudaDeviceReset)(), device);
}

}  // extern "C"
