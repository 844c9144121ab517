// See contexts.h; also calls that reset a device: the end of its primary context. Source: CUDA Driver API,
// "Primary Context Management".
#include "interpose/cuda/lower/contexts.h"

#include <mutex>

#include "interpose/cuda/lower/captures.h"
#include "interpose/cuda/lower/code_order.h"
#include "interpose/cuda/lower/devices.h"
#include "interpose/cuda/lower/kept.h"
#include "interpose/cuda/lower/memory.h"
#include "interpose/cuda/lower/saved_devices.h"
#include "interpose/cuda/lower/variables.h"

namespace cropdl::cuda {
namespace {

constexpr uint64_t kPrimaryFlags = 0x4e0d'93b1'57f2'a86c;  // kind of state: any number that no other has

// One reference of this run to a device's primary context stands for all references of the program. The
// library's own count does not survive a restart.
std::mutex retaining;
bool held[rt::kMaxDevices];

CUresult hold(int device, CUcontext* context) {
  const CUresult r = CROPDL_DRIVER(cuDevicePrimaryCtxRetain)(context, device);
  if (r != CUDA_SUCCESS || !has_number(device)) return r;
  if (held[device]) CROPDL_DRIVER(cuDevicePrimaryCtxRelease_v2)(device);
  held[device] = true;
  return r;
}

// The handle of the device's primary context, even if the context has ended and was made again since.
uint64_t word_of_primary(int device) {
  for (const uint64_t word : rt::living(kind::cudaContext)) {
    const handles::Slot& slot = *rt::slot_of(word);
    if (slot.maker != rt::maker_of(kDriver, driver::kFn_cuDevicePrimaryCtxRetain) || !slot.recipe) continue;
    if (rt::arguments_of(slot).value<int32_t>() == device) return word;
  }
  return 0;
}

// The runtime's device flags and the flags of the primary context are the same, whichever API sets them. They
// belong to the device and outlive its context.
void keep_flags(int device) {
  unsigned flags = 0;
  int active = 0;
  if (CROPDL_DRIVER(cuDevicePrimaryCtxGetState)(device, &flags, &active) != CUDA_SUCCESS) return;
  rt::Key key;
  key.value<int32_t>(device);
  rt::RecipeWriter recipe;
  recipe.value<int32_t>(device);
  recipe.value<uint32_t>(flags & ~static_cast<unsigned>(CU_CTX_MAP_HOST));  // always set
  rt::keep_state(rt::kOfLibrary, kDriver, driver::kFn_cuDevicePrimaryCtxSetFlags_v2, kPrimaryFlags, key,
                 recipe);
}
template <class Result>
Result flags_set(Result r, int device) {
  if (static_cast<int>(r) == CUDA_SUCCESS) keep_flags(device);
  return r;
}

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

uint64_t primary_word(CUcontext real, int device) {
  if (const uint64_t known = rt::virtual_of(rt::word_of(real), kind::cudaContext)) return known;
  if (const uint64_t word = word_of_primary(device)) {
    rt::rebind_word(word, rt::word_of(real));
    return word;
  }
  rt::RecipeWriter recipe;
  recipe.value<int32_t>(device);
  return rt::known_word(rt::word_of(real), kind::cudaContext, kDriver, driver::kFn_cuDevicePrimaryCtxRetain,
                        &recipe);
}

bool make_primary_current(int device) {
  const std::scoped_lock lock(retaining);
  CUcontext context = nullptr;
  return hold(device, &context) == CUDA_SUCCESS && CROPDL_DRIVER(cuCtxSetCurrent)(context) == CUDA_SUCCESS;
}

CUcontext hold_primary(int device) {
  const std::scoped_lock lock(retaining);
  CUcontext context = nullptr;
  return hold(device, &context) == CUDA_SUCCESS ? context : nullptr;
}

Status hold_contexts() {
  const uint64_t used = devices_of_image();
  for (int device = static_cast<int>(rt::kMaxDevices) - 1; device >= 0; --device) {
    if ((used >> device & 1) == 0) continue;
    const bool there = primary_context(device) != nullptr;
    const cudaError_t error = there && opened(kCudart) ? CROPDL_CUDART(cudaSetDevice)(device) : cudaSuccess;
    if (!there || error != cudaSuccess)
      return Error{"cannot restart: device {} cannot be used ({})", device,
                   there ? "cudaSetDevice" : "cuDevicePrimaryCtxRetain"};
  }
  return {};
}

}  // namespace cropdl::cuda

using namespace cropdl::cuda;

extern "C" {

CUresult lower_cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  rt::Call call;
  if (!context || !rt::need_family()) return CROPDL_DRIVER(cuDevicePrimaryCtxRetain)(context, device);
  const std::scoped_lock lock(retaining);
  CUcontext real = nullptr;
  const CUresult r = hold(device, &real);
  if (r != CUDA_SUCCESS) return r;
  *context = rt::handle_of<CUcontext>(primary_word(real, device));
  const cropdl::handles::SpinGuard guard(rt::family_lock);
  if (Kept* k = kept(); k && has_number(device)) ++k->retained[device];
  return r;
}
int64_t again_cuDevicePrimaryCtxRetain(rt::Again& from) {
  const auto device = from.value<int32_t>();
  const std::scoped_lock lock(retaining);
  const Kept* k = kept();
  const bool used = has_number(device) && (devices_of_image() >> device & 1) != 0;
  const bool wanted = k && has_number(device) && k->retained[device] > 0;
  if (!used && !wanted) return 0;  // the context had ended; the program retains it again before it uses it
  CUcontext context = primary_context(device);
  if (!context) return CUDA_ERROR_INVALID_CONTEXT;
  from.made(rt::word_of(context));
  return wanted ? hold(device, &context) : CUDA_SUCCESS;
}
CUresult lower_cuDevicePrimaryCtxRelease(CUdevice device) {
  rt::Call call;
  const std::scoped_lock lock(retaining);
  {
    const cropdl::handles::SpinGuard guard(rt::family_lock);
    Kept* k = kept();
    if (!k || !has_number(device) || k->retained[device] == 0) return CUDA_ERROR_INVALID_CONTEXT;
    if (--k->retained[device] > 0) return CUDA_SUCCESS;
  }
  if (!held[device]) return CUDA_SUCCESS;
  held[device] = false;
  const CUresult r = CROPDL_DRIVER(cuDevicePrimaryCtxRelease_v2)(device);
  // Under the lock: before a thread can retain it anew.
  if (r == CUDA_SUCCESS && !device_used(device)) device_was_reset(device);
  return r;
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
CUresult lower_cuDevicePrimaryCtxSetFlags(CUdevice device, unsigned flags) {
  rt::Call call;
  const rt::Setting setting;
  return flags_set(CROPDL_DRIVER(cuDevicePrimaryCtxSetFlags)(device, flags), device);
}
CUresult lower_cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned flags) {
  rt::Call call;
  const rt::Setting setting;
  return flags_set(CROPDL_DRIVER(cuDevicePrimaryCtxSetFlags_v2)(device, flags), device);
}
int64_t again_cuDevicePrimaryCtxSetFlags_v2(rt::Again& from) {
  const auto device = from.value<int32_t>();
  return CROPDL_DRIVER(cuDevicePrimaryCtxSetFlags_v2)(device, from.value<uint32_t>());
}
CUresult lower_cuCtxSetFlags(unsigned flags) {
  rt::Call call;
  const rt::Setting setting;
  const CUresult r = CROPDL_DRIVER(cuCtxSetFlags)(flags);
  CUdevice device = -1;
  if (r == CUDA_SUCCESS && CROPDL_DRIVER(cuCtxGetDevice)(&device) == CUDA_SUCCESS) keep_flags(device);
  return r;
}
cudaError_t lower_cudaSetDeviceFlags(unsigned flags) {
  rt::Call call;
  const rt::Setting setting;
  const cudaError_t r = CROPDL_CUDART(cudaSetDeviceFlags)(flags);
  if (r == cudaSuccess) keep_flags(rt::current_device());
  return r;
}
}  // extern "C"
