// See contexts.h. Source: CUDA Driver API, "Context Management".
#include "interpose/cuda/lower/contexts.h"

#include <thread>
#include <vector>

#include "interpose/cuda/lower/devices.h"
#include "interpose/cuda/lower/names.h"
#include "interpose/cuda/lower/real.h"
#include "interpose/cuda/lower/saved_devices.h"

namespace cropdl::cuda {
namespace {

// Kinds of state: any numbers that no others have.
constexpr uint64_t kContextStack = 0x91c0'7e35'aa4d'168b, kDevice = 0x2b7f'0d64'c81e'5a93;

std::vector<CUcontext> take_stack() {
  std::vector<CUcontext> all;
  for (CUcontext c = nullptr; CROPDL_DRIVER(cuCtxPopCurrent_v2)(&c) == CUDA_SUCCESS && c; c = nullptr)
    all.insert(all.begin(), c);
  return all;
}

void keep(const std::vector<CUcontext>& stack) {
  rt::RecipeWriter recipe;
  recipe.value<int64_t>(static_cast<int64_t>(stack.size()));
  for (CUcontext c : stack) recipe.handle(rt::word_of(virtual_context(c)));
  rt::keep_state(rt::kOfThread, kDriver, driver::kFn_cuCtxSetCurrent, kContextStack, rt::Key(), recipe);
  rt::thread_mark.settled = !stack.empty();
}

// Records the thread's context stack as it is now; it may contain contexts that the runtime set.
void keep_stack() {
  const std::vector<CUcontext> all = take_stack();
  for (CUcontext c : all) CROPDL_DRIVER(cuCtxPushCurrent_v2)(c);
  keep(all);
}

void keep_device(int device) {
  rt::RecipeWriter recipe;
  recipe.value<int32_t>(device);
  rt::keep_state(rt::kOfThread, kCudart, cudart::kFn_cudaSetDevice, kDevice, rt::Key(), recipe);
}

// `change` sets or pushes the context.
CUresult choose(CUcontext context, RealFunction<CUresult(CUcontext)> change) {
  rt::Call call;
  const CUresult r = change(rt::real(context, kind::cudaContext));
  if (r == CUDA_SUCCESS) keep_stack();
  rt::device_is_chosen();
  return r;
}
CUresult pop_current(CUcontext* context) {
  rt::Call call;
  CUcontext was = nullptr;
  const CUresult r = CROPDL_DRIVER(cuCtxPopCurrent_v2)(&was);
  if (r != CUDA_SUCCESS) return r;
  if (context) *context = virtual_context(was);
  keep_stack();
  return r;
}

}  // namespace

CUcontext current_context() {
  CUcontext context = nullptr;
  return CROPDL_DRIVER(cuCtxGetCurrent)(&context) == CUDA_SUCCESS ? context : nullptr;
}

int device_of(CUcontext real) {
  int device = -1;
  CUcontext popped = nullptr;
  if (CROPDL_DRIVER(cuCtxPushCurrent_v2)(real) != CUDA_SUCCESS) return -1;
  CROPDL_DRIVER(cuCtxGetDevice)(&device);
  CROPDL_DRIVER(cuCtxPopCurrent_v2)(&popped);
  return device;
}

CUcontext virtual_context(CUcontext real) {
  if (!real) return nullptr;
  if (const uint64_t known = rt::virtual_of(rt::word_of(real), kind::cudaContext))
    return rt::handle_of<CUcontext>(known);
  const int device = device_of(real);
  CUcontext primary = nullptr;
  if (device >= 0 && device_used(device) &&
      CROPDL_DRIVER(cuDevicePrimaryCtxRetain)(&primary, device) == CUDA_SUCCESS)
    CROPDL_DRIVER(cuDevicePrimaryCtxRelease_v2)(device);
  if (primary == real) return rt::handle_of<CUcontext>(primary_word(real, device));
  return rt::handle_of<CUcontext>(
      rt::made_word(rt::word_of(real), kind::cudaContext, kDriver, driver::kFn_cuCtxGetCurrent, nullptr));
}

void note_no_context_of_thread() {
  if (!current_context()) keep({});
}

namespace {

// --- What one_abi asks of a thread's device.

// Resets the calling thread's library state to that of a new thread: no context, the initial device, the
// default capture mode. `chooses`: the thread is about to choose a device.
void forget_thread(bool chooses) {
  int device = 0;
  if (!driver_begun()) return;
  auto mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  CROPDL_DRIVER(cuThreadExchangeStreamCaptureMode)(&mode);
  put_back_own_stream();
  take_stack();
  if (chooses || !opened(kCudart) || CROPDL_CUDART(cudaGetDevice)(&device) != cudaSuccess || device == 0)
    return;
  int usual = 0;  // asked for on a new thread, which has made no call yet
  std::thread([&] {
    if (CROPDL_CUDART(cudaGetDevice)(&usual) != cudaSuccess) usual = 0;
  }).join();
  if (usual == device) return;
  CROPDL_CUDART(cudaSetDevice)(usual);  // makes the device's context current
  take_stack();
}

// A call of the runtime, or of a library over it, gives a thread without a context the context of its device,
// which later driver calls use. Records this as if the thread had chosen the device. False: no context yet.
bool note_context_of_thread() {
  int device = 0;
  if (!rt::family || !driver_begun() || !current_context()) return false;
  if (!opened(kCudart) || CROPDL_CUDART(cudaGetDevice)(&device) != cudaSuccess || !has_number(device))
    return true;
  rt::undo_state(rt::kOfThread, kContextStack, rt::Key());  // the stack was recorded as empty
  keep_device(device);
  return true;
}

int current() {
  int device = -1;
  if (!driver_begun()) return -1;
  if (opened(kCudart)) return CROPDL_CUDART(cudaGetDevice)(&device) == cudaSuccess ? device : -1;
  return CROPDL_DRIVER(cuCtxGetDevice)(&device) == CUDA_SUCCESS ? device : -1;  // opened, since it has begun
}

// Uses the runtime if the program does, so that the runtime knows. The primary context is current either way.
bool make_current(int device) {
  if (device < 0) return true;
  if (current() == device && current_context()) return true;
  return opened(kCudart) ? CROPDL_CUDART(cudaSetDevice)(device) == cudaSuccess : make_primary_current(device);
}

struct DeviceHooks {
  DeviceHooks() {
    rt::current_device = current;
    rt::make_current = make_current;
    rt::make_fresh = forget_thread;
    rt::has_settled = note_context_of_thread;
  }
} device_hooks;

}  // namespace
}  // namespace cropdl::cuda

using namespace cropdl::cuda;

extern "C" {

// Often a thread's first call. rt::Call(true): makes no context on the device that a new thread begins with.
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

CUresult lower_cuCtxGetCurrent(CUcontext* context) {
  rt::Call call;
  const CUresult r = CROPDL_DRIVER(cuCtxGetCurrent)(context);
  if (r == CUDA_SUCCESS && context) *context = virtual_context(*context);
  return r;
}
CUresult lower_cuCtxSetCurrent(CUcontext context) {
  return choose(context, CROPDL_DRIVER_FUNCTION(cuCtxSetCurrent));
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
  return choose(context, CROPDL_DRIVER_FUNCTION(cuCtxPushCurrent_v2));
}
CUresult lower_cuCtxPushCurrent_v2(CUcontext context) {
  return choose(context, CROPDL_DRIVER_FUNCTION(cuCtxPushCurrent_v2));
}
CUresult lower_cuCtxPopCurrent(CUcontext* context) { return pop_current(context); }
CUresult lower_cuCtxPopCurrent_v2(CUcontext* context) { return pop_current(context); }
CUresult lower_cuCtxGetId(CUcontext context, unsigned long long* number) {
  rt::Call call;
  const CUresult r = CROPDL_DRIVER(cuCtxGetId)(rt::real(context, kind::cudaContext), number);
  if (r != CUDA_SUCCESS || !number) return r;
  if (!context) context = virtual_context(current_context());
  *number = number_of(rt::word_of(context), *number);
  return r;
}

}  // extern "C"
