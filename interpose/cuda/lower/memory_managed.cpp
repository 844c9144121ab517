// Managed memory, with the program's advice and prefetches. Sources: CUDA Runtime API and Driver API 13.0,
// "Memory Management", "Unified Addressing". LH, LH FS base, a thread of the program.
#include <optional>

#include "interpose/cuda/lower/devices.h"
#include "interpose/cuda/lower/memory.h"

using namespace cropdl::cuda;
using cropdl::memory::Block;

namespace {

CUresult allocate_managed(int device, size_t size, unsigned flags, CUdeviceptr* address) {
  if (!address || size == 0 || (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST))
    return CUDA_ERROR_INVALID_VALUE;
  DeviceMemory* its = device_memory();
  if (!its) return CUDA_ERROR_OUT_OF_MEMORY;
  if (const CUresult error = verdict_of_driver(device)) return error;
  const OnDevice on(device);
  Block* block = nullptr;
  const CUresult error =
      with_room(device, [&] { return its->managed.allocate(size, flags, device, &block); });
  if (error == CUDA_SUCCESS) *address = block->begin;
  return error;
}

CUmemLocation location(cudaMemLocation from) {
  static_assert(int{cudaMemLocationTypeDevice} == int{CU_MEM_LOCATION_TYPE_DEVICE} &&
                int{cudaMemLocationTypeHostNumaCurrent} == int{CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT});
  CUmemLocation to{};
  to.type = static_cast<CUmemLocationType>(from.type);
  to.id = from.id;
  return to;
}
CUmemLocation location(CUmemLocation from) { return from; }
// The form before CUDA 12.2: a device's number.
CUmemLocation location(CUdevice device) {
  CUmemLocation to{};
  to.type = device == CU_DEVICE_CPU ? CU_MEM_LOCATION_TYPE_HOST : CU_MEM_LOCATION_TYPE_DEVICE;
  to.id = device == CU_DEVICE_CPU ? 0 : device;
  return to;
}

// The managed block around the address. Managed variables, and memory backed by the host's pages, have none:
// the driver handles them, and their advice is not kept.
std::optional<Block> managed_block_around(CUdeviceptr address) {
  const std::optional<Block> block = block_around(address);
  return block && block->kind == cropdl::memory::BlockKind::kManaged ? block : std::nullopt;
}
bool is_block(CUdeviceptr address) { return managed_block_around(address).has_value(); }

CUresult advise(CUdeviceptr address, size_t size, CUmem_advise advice, CUmemLocation where) {
  return is_block(address) ? known_device_memory()->advised.advise(address, size, advice, where)
                           : CROPDL_DRIVER(cuMemAdvise_v2)(address, size, advice, where);
}

CUresult prefetch(CUdeviceptr address, size_t size, CUmemLocation where, unsigned flags, CUstream real) {
  return is_block(address) ? known_device_memory()->advised.prefetch(address, size, where, flags, real)
                           : CROPDL_DRIVER(cuMemPrefetchAsync_v2)(address, size, where, flags, real);
}

// Records a batch after the call, which has passed it on unchanged. `where`, `which`: as in
// cuMemPrefetchBatchAsync.
template <class Location>
void note_batch(const CUdeviceptr* addresses, const size_t* sizes, size_t n, const Location* where,
                const size_t* which, size_t places) {
  DeviceMemory* its = known_device_memory();
  for (size_t i = 0, at = 0; its && i < n; ++i) {
    while (at + 1 < places && which[at + 1] <= i) ++at;
    its->advised.prefetched(addresses[i], sizes[i], location(where[at]));
  }
}

// `function`: its type is spelled out here, since cuda_runtime.h overloads the names.
cudaError_t runtime_batch(uint32_t function, void** p, size_t* sizes, size_t n, cudaMemLocation* where,
                          size_t* which, size_t places, unsigned long long flags, CUstream stream) {
  using Batch = cudaError_t(void**, size_t*, size_t, cudaMemLocation*, size_t*, size_t, unsigned long long,
                            cudaStream_t);
  return in_runtime([&](int) {
    auto* const batch = rt::function_of<Batch>(kCudart, function);
    const cudaError_t error = batch(p, sizes, n, where, which, places, flags, real_stream(stream));
    if (error == cudaSuccess)
      note_batch(reinterpret_cast<const CUdeviceptr*>(p), sizes, n, where, which, places);
    return static_cast<CUresult>(error);
  });
}

template <class F>
CUresult driver_batch(RealFunction<F> batch, CUdeviceptr* addresses, size_t* sizes, size_t n,
                      CUmemLocation* where, size_t* which, size_t places, unsigned long long flags,
                      CUstream stream) {
  rt::Call call;
  const CUresult error = batch(addresses, sizes, n, where, which, places, flags, real_stream(stream));
  if (error == CUDA_SUCCESS) note_batch(addresses, sizes, n, where, which, places);
  return error;
}

// Stream attachment restricts devices that cannot share managed memory with the host at any time. On others
// it is only a promise, and not kept. The driver is not told: a block is only a part of its allocation.
bool all_share_with_the_host() {
  for (int device = 0; device < device_count(); ++device)
    if (!device_attribute(CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, device)) return false;
  return true;
}

CUresult attach(CUstream stream, CUdeviceptr address, size_t size, unsigned flags) {
  const bool share = all_share_with_the_host();
  if (!share)
    rt::mark_unsaved(kDriver, driver::kFn_cuStreamAttachMemAsync,
                     "managed memory has a stream, on a device that cannot share it");
  const auto block = managed_block_around(address);
  if (!block) return CROPDL_DRIVER(cuStreamAttachMemAsync)(stream, address, size, flags);
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  if (const CUresult error = CROPDL_DRIVER(cuStreamIsCapturing)(stream, &status)) return error;
  if (status != CU_STREAM_CAPTURE_STATUS_NONE) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  const bool nobodys = stream == nullptr || stream == CU_STREAM_LEGACY;
  if (address != block->begin || (size != 0 && size != block->size) ||
      (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST &&
       (flags != CU_MEM_ATTACH_SINGLE || nobodys)))
    return CUDA_ERROR_INVALID_VALUE;
  if (share) return CUDA_SUCCESS;
  rt::say_not_offered("cuStreamAttachMemAsync", "memory of a device that cannot share it with the host");
  return CUDA_ERROR_NOT_SUPPORTED;
}

}  // namespace

extern "C" {

cudaError_t lower_cudaMallocManaged(void** p, size_t size, unsigned flags) {
  return allocate_in_runtime(
      p, [&](int device, CUdeviceptr* address) { return allocate_managed(device, size, flags, address); });
}
CUresult lower_cuMemAllocManaged(CUdeviceptr* address, size_t size, unsigned flags) {
  return in_driver([&](int device) { return allocate_managed(device, size, flags, address); });
}

cudaError_t lower_cudaMemAdvise(const void* p, size_t size, cudaMemoryAdvise advice, cudaMemLocation where) {
  return in_runtime(
      [&](int) { return advise(address_of(p), size, static_cast<CUmem_advise>(advice), location(where)); });
}
CUresult lower_cuMemAdvise_v2(CUdeviceptr address, size_t size, CUmem_advise advice, CUmemLocation where) {
  rt::Call call;
  return advise(address, size, advice, where);
}
CUresult lower_cuMemAdvise(CUdeviceptr address, size_t size, CUmem_advise advice, CUdevice device) {
  return lower_cuMemAdvise_v2(address, size, advice, location(device));
}

// Each function, and its variant in which stream 0 is the calling thread's own default stream.
#define RUNTIME_BATCH(name, suffix, own)                                                                     \
  cudaError_t lower_##name##suffix(void** p, size_t* sizes, size_t n, cudaMemLocation* where, size_t* which, \
                                   size_t places, unsigned long long flags, cudaStream_t stream) {           \
    return runtime_batch(cudart::kFn_##name, p, sizes, n, where, which, places, flags, own(stream));         \
  }
#define DRIVER_BATCH(name, suffix, own)                                                                    \
  CUresult lower_##name##suffix(CUdeviceptr* addresses, size_t* sizes, size_t n, CUmemLocation* where,     \
                                size_t* which, size_t places, unsigned long long flags, CUstream stream) { \
    return driver_batch(CROPDL_DRIVER_FUNCTION(name), addresses, sizes, n, where, which, places, flags,    \
                        own(stream));                                                                      \
  }
#define IN_STREAM(suffix, own)                                                                            \
  cudaError_t lower_cudaMemPrefetchAsync##suffix(const void* p, size_t size, cudaMemLocation where,       \
                                                 unsigned flags, cudaStream_t stream) {                   \
    return in_runtime([&](int) {                                                                          \
      return prefetch(address_of(p), size, location(where), flags, real_stream(own(stream)));             \
    });                                                                                                   \
  }                                                                                                       \
  CUresult lower_cuMemPrefetchAsync_v2##suffix(CUdeviceptr address, size_t size, CUmemLocation where,     \
                                               unsigned flags, CUstream stream) {                         \
    rt::Call call;                                                                                        \
    return prefetch(address, size, where, flags, real_stream(own(stream)));                               \
  }                                                                                                       \
  CUresult lower_cuMemPrefetchAsync##suffix(CUdeviceptr address, size_t size, CUdevice device,            \
                                            CUstream stream) {                                            \
    return lower_cuMemPrefetchAsync_v2##suffix(address, size, location(device), 0, stream);               \
  }                                                                                                       \
  RUNTIME_BATCH(cudaMemPrefetchBatchAsync, suffix, own)                                                   \
  RUNTIME_BATCH(cudaMemDiscardAndPrefetchBatchAsync, suffix, own)                                         \
  DRIVER_BATCH(cuMemPrefetchBatchAsync, suffix, own)                                                      \
  DRIVER_BATCH(cuMemDiscardAndPrefetchBatchAsync, suffix, own)                                            \
  cudaError_t lower_cudaStreamAttachMemAsync##suffix(cudaStream_t stream, void* p, size_t size,           \
                                                     unsigned flags) {                                    \
    return in_runtime([&](int) { return attach(real_stream(own(stream)), address_of(p), size, flags); }); \
  }                                                                                                       \
  CUresult lower_cuStreamAttachMemAsync##suffix(CUstream stream, CUdeviceptr address, size_t size,        \
                                                unsigned flags) {                                         \
    rt::Call call;                                                                                        \
    return attach(real_stream(own(stream)), address, size, flags);                                        \
  }
IN_STREAM(, )
IN_STREAM(_ptsz, own_stream)
#undef IN_STREAM
#undef DRIVER_BATCH
#undef RUNTIME_BATCH

}  // extern "C"
