// Host memory that devices access: the program's own, or mapped by the shim (interpose/cuda/upper/pinned.h),
// and registered with the real driver. All of it is in the window and saved with the program's memory. A
// restart registers it again. Sources: CUDA Runtime API and Driver API 13.0, "Memory Management". LH, LH FS
// base, a thread of the program.
#include <sys/mman.h>

#include <algorithm>

#include "base/format.h"
#include "base/page.h"
#include "interpose/cuda/lower/devices.h"
#include "interpose/cuda/lower/memory.h"
#include "interpose/cuda/lower/saved_memory.h"
#include "restart/memory/mappings.h"

using namespace cropdl;
using namespace cropdl::cuda;

namespace {

CUresult enroll(int device, void* p, size_t size, unsigned flags, unsigned registered, bool made) {
  DeviceMemory* its = device_memory();
  if (!its) return CUDA_ERROR_OUT_OF_MEMORY;
  const auto begin = reinterpret_cast<uint64_t>(p);
  {
    // The driver keeps a registration even if the memory is unmapped, for which gone == 2 stands.
    std::lock_guard lock(its->blocks.lock());
    const auto next = its->host.lower_bound(begin);
    const HostMemory* before = its->host_around(begin);
    const HostMemory* behind =
        next == its->host.end() || next->first - begin >= size ? nullptr : next->second;
    if ((before && before->gone == 2) || (behind && behind->gone == 2))
      return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
  }
  const OnDevice on(device);
  if (const CUresult error = CROPDL_DRIVER(cuMemHostRegister_v2)(p, size, registered)) return error;
  CUdeviceptr address = 0;
  if (CROPDL_DRIVER(cuMemHostGetDevicePointer_v2)(&address, p, 0) != CUDA_SUCCESS) address = 0;
  std::lock_guard lock(its->blocks.lock());
  HostMemory* one = its->state.host.make();
  if (!one) {
    CROPDL_DRIVER(cuMemHostUnregister)(p);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  one->begin = begin;
  one->size = size;
  one->flags = flags;
  one->registered = registered;
  one->device = device;
  one->device_address = address;
  one->made = made;
  its->host[begin] = one;
  return CUDA_SUCCESS;
}

// `unknown`: the error if no registration of that kind begins there.
CUresult strike_off(void* p, bool made, CUresult unknown) {
  rt::Call call;
  DeviceMemory* its = known_device_memory();
  if (!its) return unknown;
  const auto find = [&]() -> HostMemory* {
    const auto found = its->host.find(reinterpret_cast<uint64_t>(p));
    return found != its->host.end() && (found->second->made != 0) == made ? found->second : nullptr;
  };
  int device = 0;
  {
    std::lock_guard lock(its->blocks.lock());
    const HostMemory* one = find();
    if (!one) return unknown;
    device = one->device;
  }
  // Wait without the lock: other threads allocate meanwhile.
  if (const CUresult error = wait_for_device(-1)) return error;
  const OnDevice on(device);
  std::lock_guard lock(its->blocks.lock());
  HostMemory* still = find();
  if (!still) return unknown;  // two threads unregistered it
  if (still->gone != 2)
    if (const CUresult error = CROPDL_DRIVER(cuMemHostUnregister)(p)) return error;
  its->host.erase(still->begin);
  its->forget_numbers(still->begin, still->begin + 1);
  its->state.host.drop(still);
  return CUDA_SUCCESS;
}

// Memory that the shim made is open to all contexts, as unified addressing requires for cuMemHostAlloc.
constexpr unsigned kMade = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP;

// The shim has stored the memory's address in *p.
CUresult make_host_memory(int device, void** p, size_t size, unsigned flags) {
  constexpr unsigned kKnown =
      CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED;
  if (!p || !*p || (flags & ~kKnown) != 0) return CUDA_ERROR_INVALID_VALUE;
  return enroll(device, *p, size, flags, kMade, true);
}

enum class Mapped { kAll, kNothing, kInPart };

// How much is mapped so that it can be registered again: writable, unless read-only then. `all`: ascending.
Mapped mapped(const std::vector<host_memory::Mapping>& all, const HostMemory& memory) {
  const uint64_t begin = page_down(memory.begin), end = page_up(memory.begin + memory.size);
  const int needed = memory.registered & CU_MEMHOSTREGISTER_READ_ONLY ? PROT_READ : PROT_READ | PROT_WRITE;
  uint64_t open = 0, there = 0;
  auto one = std::partition_point(all.begin(), all.end(),
                                  [&](const host_memory::Mapping& other) { return other.end <= begin; });
  for (; one != all.end() && one->begin < end; ++one) {
    const uint64_t bytes = std::min(one->end, end) - std::max(one->begin, begin);
    there += bytes;
    if ((one->prot & needed) == needed) open += bytes;
  }
  return open == end - begin ? Mapped::kAll : there == 0 ? Mapped::kNothing : Mapped::kInPart;
}

// Calls visit(record, how much is mapped) for each registration of this run. Error: mappings are unreadable.
template <class Visit>
Status each_registered(DeviceMemory& its, Visit visit) {
  std::lock_guard lock(its.blocks.lock());
  if (its.host.empty()) return {};
  const std::vector<host_memory::Mapping> all = host_memory::read_mappings();
  if (all.empty())
    return Error{
        "CUDA: whether registered memory is still mapped cannot be read (/proc/self/maps); ask again"};
  for (const auto& [begin, one] : its.host)
    if (one->gone != 2) visit(*one, mapped(all, *one));
  return {};
}

}  // namespace

Status cropdl::cuda::note_unmapped_host_memory() {
  return each_registered(*known_device_memory(),
                         [](HostMemory& one, Mapped how) { one.gone = how == Mapped::kNothing; });
}

std::string cropdl::cuda::host_memory_refusal() {
  std::string why;
  const Status looked = each_registered(*known_device_memory(), [&](const HostMemory& one, Mapped how) {
    if (how == Mapped::kInPart)
      why = formatted(
          "cuMemHostRegister: of the registered memory at {:#x} ({} bytes) pages are unmapped, or protected "
          "(mprotect): unregister it before",
          one.begin, one.size);
  });
  return looked ? why : looked.error().message;
}

Status cropdl::cuda::register_host_memory_again() {
  DeviceMemory* its = known_device_memory();
  std::string trouble;
  its->state.host.each([&](HostMemory* one) {
    if (one->gone) one->gone = 2;
    if (!trouble.empty() || one->gone) return;
    auto* p = reinterpret_cast<void*>(one->begin);
    const memory::InContext in(its->driver, primary_context(one->device));
    CUdeviceptr address = 0;
    CUresult error = CROPDL_DRIVER(cuMemHostRegister_v2)(p, one->size, one->registered);
    if (!error && CROPDL_DRIVER(cuMemHostGetDevicePointer_v2)(&address, p, 0) != CUDA_SUCCESS) address = 0;
    if (error)
      trouble = formatted(
          "CUDA: pinned memory of the program at {:#x} ({} bytes) cannot be registered again ({}): is there "
          "a limit on locked memory (ulimit -l)?",
          one->begin, one->size, its->driver.name_of(error));
    else if (address != one->device_address)
      trouble = formatted(
          "CUDA: pinned memory of the program at {:#x} has another address on device {} than before",
          one->begin, one->device);
  });
  return trouble.empty() ? Status() : Status(Error{trouble});
}

extern "C" {

cudaError_t lower_cudaHostAlloc(void** p, size_t size, unsigned flags) {
  return in_runtime([&](int device) { return make_host_memory(device, p, size, flags); });
}
cudaError_t lower_cudaMallocHost(void** p, size_t size) { return lower_cudaHostAlloc(p, size, 0); }
cudaError_t lower_cudaFreeHost(void* p) {
  return of_runtime(p ? strike_off(p, true, CUDA_ERROR_INVALID_VALUE) : CUDA_SUCCESS);
}
cudaError_t lower_cudaHostRegister(void* p, size_t size, unsigned flags) {
  return in_runtime([&](int device) { return enroll(device, p, size, flags, flags, false); });
}
cudaError_t lower_cudaHostUnregister(void* p) {
  return of_runtime(strike_off(p, false, CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED));
}

CUresult lower_cuMemHostAlloc(void** p, size_t size, unsigned flags) {
  return in_driver([&](int device) { return make_host_memory(device, p, size, flags); });
}
CUresult lower_cuMemAllocHost_v2(void** p, size_t size) { return lower_cuMemHostAlloc(p, size, 0); }
CUresult lower_cuMemAllocHost(void** p, unsigned size) { return lower_cuMemHostAlloc(p, size, 0); }
CUresult lower_cuMemFreeHost(void* p) { return strike_off(p, true, CUDA_ERROR_INVALID_VALUE); }
CUresult lower_cuMemHostRegister_v2(void* p, size_t size, unsigned flags) {
  return in_driver([&](int device) { return enroll(device, p, size, flags, flags, false); });
}
CUresult lower_cuMemHostRegister(void* p, size_t size, unsigned flags) {
  return lower_cuMemHostRegister_v2(p, size, flags);
}
CUresult lower_cuMemHostUnregister(void* p) {
  return strike_off(p, false, CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
}
CUresult lower_cuMemHostGetFlags(unsigned* flags, void* p) {
  rt::Call call;
  DeviceMemory* its = known_device_memory();
  if (!flags || !its) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard lock(its->blocks.lock());
  const HostMemory* one = its->host_around(reinterpret_cast<uint64_t>(p));
  if (!one) return CUDA_ERROR_INVALID_VALUE;
  *flags = one->flags;
  return CUDA_SUCCESS;
}
cudaError_t lower_cudaHostGetFlags(unsigned* flags, void* p) {
  return of_runtime(lower_cuMemHostGetFlags(flags, p));
}

}  // extern "C"
