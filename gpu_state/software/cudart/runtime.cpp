// The context in which a thread works (runtime.h).
#include "gpu_state/software/cudart/runtime.h"

#include <atomic>
#include <mutex>
#include <vector>

#include "gpu_state/software/cudart/refused.h"
#include "gpu_state/software/settings/settings.h"

namespace cropdl::cudart {
namespace {

struct Primary {
  // held during retain and reset, which wait for the device; other primaries are not blocked
  std::mutex mutex;
  std::atomic<CUcontext> context{nullptr};
  std::atomic<bool> is_retained{false};
};

// Indexed by device. Never destroyed: destructors of other libraries call the runtime later than ours would
// run.
std::vector<Primary>& primaries() {
  static auto* made = [] {
    int count = 0;
    cuDeviceGetCount(&count);
    return new std::vector<Primary>(static_cast<size_t>(count));
  }();
  return *made;
}

std::atomic<unsigned> resets{0};

// Without a destructor, since destructors of other thread-local variables call the runtime.
struct Thread {
  int device = -1;    // not chosen yet
  int preferred = 0;  // the device until one is chosen
  cudaError_t last = cudaSuccess;
  CUcontext seen = nullptr;  // the context that was current and valid when `resets` was `at`
  unsigned at = 0;
};
thread_local Thread thread;

cudaError_t make_current(int device) {
  CUcontext context = nullptr;
  const cudaError_t error = primary_context(device, &context);
  if (error != cudaSuccess) return error;
  return as_error(cuCtxSetCurrent(context));
}

// Whether `context` was a primary context destroyed by cudaDeviceReset; `device` returns whose.
bool was_reset(CUcontext context, int* device) {
  for (size_t i = 0; i < primaries().size(); i++)
    if (primaries()[i].context == context && !primaries()[i].is_retained) {
      *device = static_cast<int>(i);
      return true;
    }
  return false;
}

}  // namespace

cudaError_t start() {
  static const CUresult result = cuInit(0);
  return as_error(result);
}

cudaError_t enter() {
  if (const cudaError_t error = start(); error != cudaSuccess) return error;
  CUcontext context = nullptr;
  if (const CUresult result = cuCtxGetCurrent(&context); result != CUDA_SUCCESS) return as_error(result);
  const unsigned now = resets.load(std::memory_order_acquire);
  if (context && context == thread.seen && thread.at == now) return cudaSuccess;
  int device = -1;
  if (!context || was_reset(context, &device)) {
    const cudaError_t error = make_current(context ? device : current_device());
    if (error != cudaSuccess) return error;
    cuCtxGetCurrent(&context);
  }
  thread.seen = context;
  thread.at = now;
  return cudaSuccess;
}

bool is_sticky(cudaError_t error) {
  switch (error) {
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchTimeout:
    case cudaErrorAssert:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorLaunchFailure:
    case cudaErrorECCUncorrectable:
    case cudaErrorExternalDevice:
      return true;
    default:
      return false;
  }
}

cudaError_t answer(cudaError_t error) {
  if (error != cudaSuccess && error != cudaErrorNotReady) thread.last = error;
  return error;
}

int refuse(const char* name) {
  settings::say_not_built(name);
  return answer(cudaErrorNotSupported);
}

int current_device() {
  CUcontext context = nullptr;
  CUdevice device = 0;
  if (cuCtxGetCurrent(&context) == CUDA_SUCCESS && context && cuCtxGetDevice(&device) == CUDA_SUCCESS)
    return device;
  return thread.device >= 0 ? thread.device : thread.preferred;
}

cudaError_t is_device(int ordinal) {
  int count = 0;
  if (const CUresult result = cuDeviceGetCount(&count); result != CUDA_SUCCESS) return as_error(result);
  return ordinal >= 0 && ordinal < count ? cudaSuccess : cudaErrorInvalidDevice;
}

cudaError_t primary_context(int device, CUcontext* context) {
  if (const cudaError_t error = is_device(device); error != cudaSuccess) return error;
  Primary& primary = primaries()[static_cast<size_t>(device)];
  const std::lock_guard lock(primary.mutex);
  if (!primary.is_retained) {
    CUcontext made = nullptr;
    const CUresult result = cuDevicePrimaryCtxRetain(&made, device);
    if (result != CUDA_SUCCESS) return as_error(result);
    primary.context = made;
    primary.is_retained = true;
  }
  *context = primary.context;
  return cudaSuccess;
}

CUresult nothing_to_do() {
  CUfunc_cache config;
  return cuCtxGetCacheConfig(&config);  // the driver's cheapest call that reports it
}

cudaError_t choose_device(int device) {
  if (const cudaError_t error = is_device(device); error != cudaSuccess) return error;
  thread.device = device;
  return make_current(device);
}

void prefer_device(int device) { thread.preferred = device; }

cudaError_t reset_device(int device) {
  // If the destroyed context is current, it becomes unusable; the next call makes another one.
  CUcontext context = nullptr;
  cuCtxGetCurrent(&context);
  if (const cudaError_t error = is_device(device); error != cudaSuccess) return error;
  Primary& primary = primaries()[static_cast<size_t>(device)];
  const std::lock_guard lock(primary.mutex);  // no thread may get the context while it is destroyed
  const cudaError_t error = as_error(cuDevicePrimaryCtxReset(device));
  thread.device = device;
  if (context && primary.context == context) cuCtxSetCurrent(nullptr);
  primary.is_retained = false;
  resets.fetch_add(1, std::memory_order_release);
  return error;
}

}  // namespace cropdl::cudart

using namespace cropdl::cudart;

extern "C" {

cudaError_t cudaGetLastError() {
  const cudaError_t last = thread.last;
  if (!is_sticky(last)) thread.last = cudaSuccess;
  return last;
}

cudaError_t cudaPeekAtLastError() { return thread.last; }
}
