#include "interpose/cuda/lower/memory.h"

#include <atomic>
#include <mutex>

#include "base/say.h"
#include "interpose/cuda/lower/captures.h"
#include "interpose/cuda/lower/contexts.h"
#include "interpose/cuda/lower/devices.h"
#include "interpose/handles/heap.h"
#include "interpose/one_abi/state.h"

namespace cropdl::cuda {
namespace {

std::mutex beginning;
std::atomic<DeviceMemory*> made{nullptr};
std::atomic<uint64_t> begun{0};  // one bit per device where the runtime has started
// Each device's primary context, from when wait_for_device() first sees it until the device is reset.
std::atomic<CUcontext> seen_primary[memory::kDevices];

memory::Driver real_driver() {
  memory::Driver driver;
#define CROPDL_REAL(name) driver.name = CROPDL_DRIVER(name);
  CROPDL_DRIVER_FUNCTIONS(CROPDL_REAL)
#undef CROPDL_REAL
  return driver;
}

// Retained by this file, from the first primary_context() of a cut or restart until let_contexts_go(). No
// member of either: gpu_state/memory calls primary_context() by a pointer without data.
CUcontext retained_contexts[memory::kDevices];

// Null: the heap is full.
MemoryState* new_state() {
  auto* state = static_cast<MemoryState*>(handles::heap_allocate(sizeof(MemoryState)));
  if (!state || (state->device = memory::State::format())) return state;
  handles::heap_free(state);
  return nullptr;
}

}  // namespace

CUcontext primary_context(int device) {
  if (device < 0 || device >= memory::kDevices) return nullptr;
  if (!retained_contexts[device] &&
      CROPDL_DRIVER(cuDevicePrimaryCtxRetain)(&retained_contexts[device], device) != CUDA_SUCCESS)
    retained_contexts[device] = nullptr;
  return retained_contexts[device];
}

void let_contexts_go() {
  for (int device = 0; device < memory::kDevices; ++device) {
    if (!retained_contexts[device]) continue;
    CROPDL_DRIVER(cuDevicePrimaryCtxRelease_v2)(device);
    retained_contexts[device] = nullptr;
  }
}

void MemoryState::drop(TakenVariable* one) {
  handles::heap_free(reinterpret_cast<void*>(one->name));
  variables.drop(one);
}

DeviceMemory::DeviceMemory(MemoryState& its)
    : state(its),
      driver(real_driver()),
      blocks(*its.device),
      arena(driver, blocks),
      pools(driver, blocks, arena),
      advised(driver, blocks),
      managed(driver, blocks, advised),
      own(driver, blocks),
      contents(driver, blocks, primary_context) {
  state.host.each([&](HostMemory* one) { host[one->begin] = one; });
  state.numbers.each([&](MemoryNumber* one) { numbers[one->begin] = one; });
}

uint64_t DeviceMemory::number_of(uint64_t begin) {
  MemoryNumber*& one = numbers[begin];
  if (!one && (one = state.numbers.make())) {
    one->begin = begin;
    one->id = blocks.next_id();
  }
  return one ? one->id : 0;
}

void DeviceMemory::forget_numbers(uint64_t begin, uint64_t end) {
  for (auto one = numbers.lower_bound(begin); one != numbers.end() && one->first < end;
       one = numbers.erase(one))
    if (one->second) state.numbers.drop(one->second);
}

HostMemory* DeviceMemory::host_around(uint64_t address) const {
  auto next = host.upper_bound(address);
  if (next == host.begin()) return nullptr;
  HostMemory* one = std::prev(next)->second;
  return address - one->begin < one->size ? one : nullptr;
}

DeviceMemory* known_device_memory() { return made.load(std::memory_order_acquire); }

DeviceMemory* device_memory() {
  if (DeviceMemory* there = known_device_memory()) return there;
  static bool tried = false;
  std::scoped_lock lock(beginning);
  if (made || tried) return made;
  if (CROPDL_DRIVER(cuInit)(0) != CUDA_SUCCESS) return nullptr;
  tried = true;
  MemoryState* state = one_abi::need_family() ? new_state() : nullptr;
  if (!state) {
    say("cropdl: the program gets no device memory: no memory was left for what CropDL keeps of it (ulimit "
        "-v?); start the program again with more");
    return nullptr;
  }
  auto* its = new DeviceMemory(*state);
  if (Status taken = its->arena.reserve(std::min(device_count(), memory::kDevices)); !taken) {
    say("cropdl: " + taken.error().message);
    return nullptr;
  }
  one_abi::family->members[one_abi::kMemberMemory] = reinterpret_cast<uint64_t>(state);
  made.store(its, std::memory_order_release);
  return its;
}

Result<DeviceMemory*> restored_device_memory() {
  if (!one_abi::family) return nullptr;
  auto* state = reinterpret_cast<MemoryState*>(one_abi::family->members[one_abi::kMemberMemory]);
  if (!state) return nullptr;
  if (const char* why = state->device->check(); *why) return Error{std::string("cannot restart: ") + why};
  auto* its = new DeviceMemory(*state);
  if (Status taken = its->arena.reserve(std::min(device_count(), memory::kDevices)); !taken)
    return taken.error();
  made.store(its, std::memory_order_release);
  return its;
}

CUresult enter_runtime(int* device) {
  if (const cudaError_t error = CROPDL_CUDART(cudaGetDevice)(device)) return static_cast<CUresult>(error);
  const uint64_t bit = uint64_t{1} << (*device & 63);
  if (one_abi::thread_mark.settled && (begun.load(std::memory_order_relaxed) & bit)) return CUDA_SUCCESS;
  if (const cudaError_t error = CROPDL_CUDART(cudaFree)(nullptr)) return static_cast<CUresult>(error);
  begun |= bit;
  return CUDA_SUCCESS;
}

cudaError_t of_runtime(CUresult result) {
  if (result != CUDA_SUCCESS) one_abi::note_error(kCudart, result);
  return static_cast<cudaError_t>(result);
}

CUresult wait_for_device(int device) {
  const DeviceMemory* its = known_device_memory();
  if (!its) return CUDA_SUCCESS;
  const CUcontext current = current_context();
  // The usual case, and the whole cost of cudaFree then: only the calling thread's context is waited for.
  if (device >= 0 && device < memory::kDevices && !captures_under_way() && current &&
      current == seen_primary[device].load(std::memory_order_relaxed))
    return CROPDL_DRIVER(cuCtxSynchronize)();
  const memory::OutsideOfCaptures outside(its->driver);
  CUresult result = CUDA_SUCCESS;
  CUdevice current_device = -1;
  if (current && CROPDL_DRIVER(cuCtxGetDevice)(&current_device) == CUDA_SUCCESS &&
      (device < 0 || current_device == device))
    result = CROPDL_DRIVER(cuCtxSynchronize)();
  for (int other = 0; other < device_count(); ++other) {
    if ((device >= 0 && other != device) || !device_used(other)) continue;
    const OnDevice on(other);
    const CUcontext primary = on.fine() ? current_context() : nullptr;
    if (!primary) continue;
    if (other < memory::kDevices) seen_primary[other].store(primary, std::memory_order_relaxed);
    if (primary == current) continue;
    const CUresult its_result = CROPDL_DRIVER(cuCtxSynchronize)();
    if (result == CUDA_SUCCESS) result = its_result;
  }
  return result;
}

namespace {

// The answer of cuMemAlloc and cuMemFree in the calling thread's context.
CUresult verdict_on_allocations() {
  CUdeviceptr smallest = 0;
  CUresult error = CROPDL_DRIVER(cuMemAlloc_v2)(&smallest, 1);
  if (error == CUDA_SUCCESS) error = CROPDL_DRIVER(cuMemFree_v2)(smallest);
  return error == CUDA_ERROR_OUT_OF_MEMORY ? CUDA_SUCCESS : error;
}

}  // namespace

CUresult verdict_of_driver(int device) {
  static std::atomic<uint64_t> fine_after[memory::kDevices];  // no failure after this many errors
  if (captures_under_way()) return verdict_on_allocations();
  const uint64_t errors = one_abi::errors_noted.load(std::memory_order_relaxed);
  std::atomic<uint64_t>& fine = fine_after[device >= 0 && device < memory::kDevices ? device : 0];
  if (errors == fine.load(std::memory_order_relaxed)) return CUDA_SUCCESS;
  // Any call returns a lasting error. This one does not wait: a kernel may wait for the program's next step.
  const CUresult error = CROPDL_DRIVER(cuStreamQuery)(CU_STREAM_LEGACY);
  if (error != CUDA_SUCCESS && error != CUDA_ERROR_NOT_READY) return error;
  fine.store(errors, std::memory_order_relaxed);
  return CUDA_SUCCESS;
}

bool make_room(int device) {
  DeviceMemory* its = known_device_memory();
  if (its && (device >= 0 || CROPDL_DRIVER(cuCtxGetDevice)(&device) == CUDA_SUCCESS)) {
    its->pools.reclaim(device);
    its->arena.trim(device);
  }
  return its != nullptr;
}

void forget_memory_of(int device) {
  begun &= ~(uint64_t{1} << (device & 63));
  if (device >= 0 && device < memory::kDevices) seen_primary[device] = nullptr;
  DeviceMemory* its = known_device_memory();
  if (!its) return;
  std::lock_guard lock(its->blocks.lock());
  its->pools.forget(device);
  its->managed.forget(device);
  std::vector<memory::Block*> gone;
  its->blocks.each([&](memory::Block* one) {
    if (one->device == device) gone.push_back(one);
  });
  for (memory::Block* one : gone) its->pools.release(one);
  its->arena.trim(device);
  for (int other = 0; other < memory::kDevices; ++other)
    if (its->state.device->enabled[other] >> device & 1) its->arena.allow_peer(other, device, false);
  // Memory made by cudaHostAlloc stays the program's like malloc's, since the shim mapped it.
  std::erase_if(its->host, [&](const auto& one) {
    if (one.second->device != device) return false;
    its->forget_numbers(one.first, one.first + 1);
    its->state.host.drop(one.second);
    return true;
  });
  its->state.variables.each([&](TakenVariable* one) {
    if (one->device == device) its->state.drop(one);
  });
}

uint64_t memory_in_use() {
  const DeviceMemory* its = known_device_memory();
  if (!its) return 0;
  // The last value, while a thread that writes an image or waits for the device holds the lock.
  static std::atomic<uint64_t> last{0};
  std::unique_lock lock(its->blocks.lock(), std::try_to_lock);
  if (!lock.owns_lock()) return last;
  uint64_t bytes = 0;
  its->blocks.each([&](const memory::Block* one) { bytes += one->size; });
  last = bytes;
  return bytes;
}

}  // namespace cropdl::cuda
