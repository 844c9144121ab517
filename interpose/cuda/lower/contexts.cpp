// See contexts.h. Source: CUDA Driver API, "Primary Context Management" and "Context Management".
#include "interpose/gen/driver/undeclared.h"
//
#include "interpose/cuda/lower/contexts.h"

#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "base/format.h"
#include "interpose/cuda/lower/code_order.h"
#include "interpose/cuda/lower/devices.h"
#include "interpose/cuda/lower/captures.h"
#include "interpose/cuda/lower/kept.h"
#include "interpose/cuda/lower/memory.h"
#include "interpose/cuda/lower/names.h"
#include "interpose/cuda/lower/real.h"
#include "interpose/one_abi/kinds.h"

namespace rt = cropdl::one_abi;
namespace kind = rt::kind;
namespace cudart = cropdl::seam::cudart;
namespace driver = cropdl::seam::driver;

namespace cropdl::cuda {
namespace {

// Kinds of state: any numbers that no others have.
constexpr uint64_t kContextStack = 0x91c0'7e35'aa4d'168b, kPrimaryFlags = 0x4e0d'93b1'57f2'a86c,
                   kDevice = 0x2b7f'0d64'c81e'5a93;

// One reference of this run to a device's primary context stands for all references of the program. The
// library's own count does not survive a restart.
std::mutex& retaining() {
  static auto& m = *new std::mutex;
  return m;
}
bool held[rt::kMaxDevices];

bool has_number(int device) { return device >= 0 && device < static_cast<int>(rt::kMaxDevices); }

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
  forget_memory_of(device);
  forget_peer(device);
}

std::vector<CUcontext> take_stack() {
  std::vector<CUcontext> all;
  for (CUcontext c = nullptr; CROPDL_DRIVER(cuCtxPopCurrent_v2)(&c) == CUDA_SUCCESS && c; c = nullptr)
    all.insert(all.begin(), c);
  return all;
}

// Records the thread's context stack as it is now; it may contain contexts that the runtime set.
void keep_stack() {
  const std::vector<CUcontext> all = take_stack();
  for (CUcontext c : all) CROPDL_DRIVER(cuCtxPushCurrent_v2)(c);
  rt::RecipeWriter recipe;
  recipe.value<int64_t>(static_cast<int64_t>(all.size()));
  for (CUcontext c : all) recipe.handle(rt::word_of(virtual_context(c)));
  rt::keep_state(rt::kOfThread, kDriver, driver::kFn_cuCtxSetCurrent, kContextStack, rt::Key(), recipe);
  rt::thread_mark.settled = !all.empty();
}

void keep_device(int device) {
  rt::RecipeWriter recipe;
  recipe.value<int32_t>(device);
  rt::keep_state(rt::kOfThread, kCudart, cudart::kFn_cudaSetDevice, kDevice, rt::Key(), recipe);
}

// Records that the calling thread, whose device was reset, has no context; after its choice of a device.
void keep_empty_stack() {
  CUcontext context = nullptr;
  if (CROPDL_DRIVER(cuCtxGetCurrent)(&context) == CUDA_SUCCESS && context) return;
  rt::RecipeWriter recipe;
  recipe.value<int64_t>(0);
  rt::keep_state(rt::kOfThread, kDriver, driver::kFn_cuCtxSetCurrent, kContextStack, rt::Key(), recipe);
  rt::thread_mark.settled = false;
}

CUresult set_current(CUcontext context) {
  const CUresult r = CROPDL_DRIVER(cuCtxSetCurrent)(rt::real(context, kind::cudaContext));
  if (r == CUDA_SUCCESS) keep_stack();
  rt::device_is_chosen();
  return r;
}
CUresult push_current(CUcontext context) {
  const CUresult r = CROPDL_DRIVER(cuCtxPushCurrent_v2)(rt::real(context, kind::cudaContext));
  if (r == CUDA_SUCCESS) keep_stack();
  rt::device_is_chosen();
  return r;
}
CUresult pop_current(CUcontext* context) {
  CUcontext was = nullptr;
  const CUresult r = CROPDL_DRIVER(cuCtxPopCurrent_v2)(&was);
  if (r != CUDA_SUCCESS) return r;
  if (context) *context = virtual_context(was);
  keep_stack();
  return r;
}

CUresult retain(CUcontext* context, CUdevice device) {
  if (!context || !rt::need_family()) return CROPDL_DRIVER(cuDevicePrimaryCtxRetain)(context, device);
  const std::scoped_lock lock(retaining());
  CUcontext real = nullptr;
  const CUresult r = hold(device, &real);
  if (r != CUDA_SUCCESS) return r;
  *context = rt::handle_of<CUcontext>(primary_word(real, device));
  const handles::SpinGuard guard(rt::family_lock);
  if (Kept* k = kept(); k && has_number(device)) ++k->retained[device];
  return r;
}

CUresult release(CUdevice device) {
  const std::scoped_lock lock(retaining());
  {
    const handles::SpinGuard guard(rt::family_lock);
    Kept* k = kept();
    if (!k || !has_number(device) || k->retained[device] == 0) return CUDA_ERROR_INVALID_CONTEXT;
    if (--k->retained[device] > 0) return CUDA_SUCCESS;
  }
  if (!held[device]) return CUDA_SUCCESS;
  held[device] = false;
  const CUresult r = CROPDL_DRIVER(cuDevicePrimaryCtxRelease_v2)(device);
  if (r == CUDA_SUCCESS && !device_used(device)) device_was_reset(device);
  return r;
}

CUresult reset(CUdevice device) {
  const CUresult r = CROPDL_DRIVER(cuDevicePrimaryCtxReset_v2)(device);
  if (r != CUDA_SUCCESS) return r;
  device_was_reset(device);
  keep_empty_stack();
  return r;
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

// Asks on a new thread, which has made no call yet.
int device_of_a_new_thread() {
  int device = 0;
  std::thread([&] {
    if (CROPDL_CUDART(cudaGetDevice)(&device) != cudaSuccess) device = 0;
  }).join();
  return device;
}

}  // namespace

CUcontext virtual_context(CUcontext real) {
  if (!real) return nullptr;
  if (const uint64_t known = rt::virtual_of(rt::word_of(real), kind::cudaContext))
    return rt::handle_of<CUcontext>(known);
  CUdevice device = -1;
  if (CROPDL_DRIVER(cuCtxPushCurrent_v2)(real) == CUDA_SUCCESS) {
    CROPDL_DRIVER(cuCtxGetDevice)(&device);
    CUcontext was = nullptr;
    CROPDL_DRIVER(cuCtxPopCurrent_v2)(&was);
  }
  CUcontext primary = nullptr;
  if (device >= 0 && device_used(device) &&
      CROPDL_DRIVER(cuDevicePrimaryCtxRetain)(&primary, device) == CUDA_SUCCESS)
    CROPDL_DRIVER(cuDevicePrimaryCtxRelease_v2)(device);
  if (primary == real) return rt::handle_of<CUcontext>(primary_word(real, device));
  return rt::handle_of<CUcontext>(
      rt::made_word(rt::word_of(real), kind::cudaContext, kDriver, driver::kFn_cuCtxGetCurrent, nullptr));
}

bool make_primary_current(int device) {
  const std::scoped_lock lock(retaining());
  CUcontext context = nullptr;
  return hold(device, &context) == CUDA_SUCCESS && CROPDL_DRIVER(cuCtxSetCurrent)(context) == CUDA_SUCCESS;
}

CUcontext hold_primary(int device) {
  const std::scoped_lock lock(retaining());
  CUcontext context = nullptr;
  return hold(device, &context) == CUDA_SUCCESS ? context : nullptr;
}

void forget_thread(bool chooses) {
  int device = 0;
  if (!driver_begun()) return;
  auto mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  CROPDL_DRIVER(cuThreadExchangeStreamCaptureMode)(&mode);
  put_back_own_stream();
  take_stack();
  if (chooses || !opened(kCudart) || CROPDL_CUDART(cudaGetDevice)(&device) != cudaSuccess || device == 0)
    return;
  const int usual = device_of_a_new_thread();
  if (usual == device) return;
  CROPDL_CUDART(cudaSetDevice)(usual);  // makes the device's context current
  take_stack();
}

bool note_context_of_thread() {
  CUcontext context = nullptr;
  int device = 0;
  if (!rt::family || !driver_begun() || CROPDL_DRIVER(cuCtxGetCurrent)(&context) != CUDA_SUCCESS || !context)
    return false;
  if (!opened(kCudart) || CROPDL_CUDART(cudaGetDevice)(&device) != cudaSuccess || !has_number(device))
    return true;
  rt::undo_state(rt::kOfThread, kContextStack, rt::Key());  // the stack was recorded as empty
  keep_device(device);
  return true;
}

Status hold_contexts() {
  const uint64_t used = devices_of_image();
  for (int device = static_cast<int>(rt::kMaxDevices) - 1; device >= 0; --device) {
    if ((used >> device & 1) == 0) continue;
    const bool there = primary_context(device) != nullptr;
    const cudaError_t error = there && opened(kCudart) ? CROPDL_CUDART(cudaSetDevice)(device) : cudaSuccess;
    if (!there || error != cudaSuccess)
      return Error{formatted("cannot restart: device {} cannot be used ({})", device,
                             there ? "cudaSetDevice" : "cuDevicePrimaryCtxRetain")};
  }
  return {};
}

}  // namespace cropdl::cuda

using namespace cropdl::cuda;

extern "C" {

CUresult lower_cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  rt::Call call;
  return retain(context, device);
}
int64_t again_cuDevicePrimaryCtxRetain(rt::Again& from) {
  const auto device = from.value<int32_t>();
  const std::scoped_lock lock(retaining());
  const Kept* k = kept();
  const bool used = has_number(device) && (devices_of_image() >> device & 1) != 0;
  const bool wanted = k && has_number(device) && k->retained[device] > 0;
  if (!used && !wanted) return 0;  // the context had ended; the program retains it again before it uses it
  CUcontext context = primary_context(device);
  if (!context) return CUDA_ERROR_INVALID_CONTEXT;
  from.made(rt::word_of(context));
  return wanted ? hold(device, &context) : CUDA_SUCCESS;
}
CUresult lower_cuDevicePrimaryCtxSetFlags(CUdevice device, unsigned flags) {
  rt::Call call;
  const CUresult r = CROPDL_DRIVER(cuDevicePrimaryCtxSetFlags)(device, flags);
  if (r == CUDA_SUCCESS) keep_flags(device);
  return r;
}
CUresult lower_cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned flags) {
  rt::Call call;
  const CUresult r = CROPDL_DRIVER(cuDevicePrimaryCtxSetFlags_v2)(device, flags);
  if (r == CUDA_SUCCESS) keep_flags(device);
  return r;
}
int64_t again_cuDevicePrimaryCtxSetFlags_v2(rt::Again& from) {
  const auto device = from.value<int32_t>();
  return CROPDL_DRIVER(cuDevicePrimaryCtxSetFlags_v2)(device, from.value<uint32_t>());
}
CUresult lower_cuCtxSetFlags(unsigned flags) {
  rt::Call call;
  const CUresult r = CROPDL_DRIVER(cuCtxSetFlags)(flags);
  CUdevice device = -1;
  if (r == CUDA_SUCCESS && CROPDL_DRIVER(cuCtxGetDevice)(&device) == CUDA_SUCCESS) keep_flags(device);
  return r;
}
cudaError_t lower_cudaSetDeviceFlags(unsigned flags) {
  rt::Call call;
  const cudaError_t r = CROPDL_CUDART(cudaSetDeviceFlags)(flags);
  if (r == cudaSuccess) keep_flags(rt::current_device());
  return r;
}
CUresult lower_cuDevicePrimaryCtxRelease(CUdevice device) {
  rt::Call call;
  return release(device);
}
CUresult lower_cuDevicePrimaryCtxRelease_v2(CUdevice device) {
  rt::Call call;
  return release(device);
}
CUresult lower_cuDevicePrimaryCtxReset(CUdevice device) {
  rt::Call call;
  return reset(device);
}
CUresult lower_cuDevicePrimaryCtxReset_v2(CUdevice device) {
  rt::Call call;
  return reset(device);
}
// Often a thread's first call. rt::Call(true) avoids making a context on the device that a new thread begins
// with.
cudaError_t lower_cudaSetDevice(int device) {
  rt::Call call(true);
  const cudaError_t r = CROPDL_CUDART(cudaSetDevice)(device);
  if (r != cudaSuccess) {
    if (call.is_first()) rt::begin_thread(false);  // it keeps its device, even one from before a restart
    return r;
  }
  keep_device(device);
  rt::device_is_chosen();
  return r;
}
// A thread has no context of a device that was reset since. If that device is already the thread's, do not
// choose it again, which would make a context.
int64_t again_cudaSetDevice(rt::Again& from) {
  const auto device = from.value<int32_t>();
  int usual = -1;
  if ((devices_of_image() >> device & 1) == 0 && CROPDL_CUDART(cudaGetDevice)(&usual) == cudaSuccess &&
      usual == device)
    return 0;
  return CROPDL_CUDART(cudaSetDevice)(device);
}

cudaError_t lower_cudaDeviceReset() {
  rt::Call call;
  const int device = rt::current_device();
  const cudaError_t r = CROPDL_CUDART(cudaDeviceReset)();
  if (r != cudaSuccess) return r;
  device_was_reset(device);
  keep_empty_stack();
  return r;
}

CUresult lower_cuCtxGetCurrent(CUcontext* context) {
  rt::Call call;
  const CUresult r = CROPDL_DRIVER(cuCtxGetCurrent)(context);
  if (r == CUDA_SUCCESS && context) *context = virtual_context(*context);
  return r;
}
CUresult lower_cuCtxSetCurrent(CUcontext context) {
  rt::Call call;
  return set_current(context);
}
int64_t again_cuCtxSetCurrent(rt::Again& from) {
  take_stack();
  const auto n = from.value<int64_t>();
  for (int64_t i = 0; i < n; ++i) {
    const auto context = rt::handle_of<CUcontext>(from.handle());
    if (!context) continue;  // it had ended
    if (const CUresult r = CROPDL_DRIVER(cuCtxPushCurrent_v2)(context)) return r;
    rt::thread_mark.settled = true;
  }
  return 0;
}
CUresult lower_cuCtxPushCurrent(CUcontext context) {
  rt::Call call;
  return push_current(context);
}
CUresult lower_cuCtxPushCurrent_v2(CUcontext context) {
  rt::Call call;
  return push_current(context);
}
CUresult lower_cuCtxPopCurrent(CUcontext* context) {
  rt::Call call;
  return pop_current(context);
}
CUresult lower_cuCtxPopCurrent_v2(CUcontext* context) {
  rt::Call call;
  return pop_current(context);
}
CUresult lower_cuCtxGetId(CUcontext context, unsigned long long* number) {
  rt::Call call;
  const CUresult r = CROPDL_DRIVER(cuCtxGetId)(rt::real(context, kind::cudaContext), number);
  if (r != CUDA_SUCCESS || !number) return r;
  CUcontext current = nullptr;
  if (!context && CROPDL_DRIVER(cuCtxGetCurrent)(&current) == CUDA_SUCCESS)
    context = virtual_context(current);
  *number = number_of(rt::word_of(context), *number);
  return r;
}

}  // extern "C"
