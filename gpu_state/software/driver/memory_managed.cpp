// cuMemAdvise, cuMemPrefetchAsync, cuMemRangeGetAttribute(s), and batches of prefetches. Source: CUDA Driver
// API 13.0, "Unified Addressing".
#include <cuda.h>

#include <cstring>

#include "gpu_state/software/device/context.h"
#include "gpu_state/software/device/device.h"
#include "gpu_state/software/device/memory_managed.h"
#include "gpu_state/software/device/work.h"
#include "gpu_state/software/driver/per_thread.h"
#include "gpu_state/software/settings/settings.h"

using namespace cropdl;

namespace {

// A location as a device number; CU_DEVICE_CPU for the host.
CUresult device_of(CUmemLocation location, int* device) {
  switch (location.type) {
    case CU_MEM_LOCATION_TYPE_HOST:
      *device = CU_DEVICE_CPU;
      return CUDA_SUCCESS;
    case CU_MEM_LOCATION_TYPE_DEVICE:
      *device = location.id;
      return device::find(location.id) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
    case CU_MEM_LOCATION_TYPE_HOST_NUMA:
    case CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT:
      settings::say_not_built("managed memory at a NUMA node");
      return CUDA_ERROR_NOT_SUPPORTED;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

// Locations before CUDA 12.2: a device number.
CUmemLocation location_of(CUdevice device) {
  return device == CU_DEVICE_CPU ? CUmemLocation{CU_MEM_LOCATION_TYPE_HOST, 0}
                                 : CUmemLocation{CU_MEM_LOCATION_TYPE_DEVICE, device};
}

CUresult prefetch(CUdeviceptr address, size_t size, CUmemLocation location, unsigned flags, CUstream stream) {
  CUcontext context;
  if (CUresult error = device::enter(&context)) return error;
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  device::PrefetchWork work;
  work.address = address;
  work.size = size;
  if (CUresult error = device_of(location, &work.device)) return error;
  if (CUresult error = device::check_managed(address, size)) return error;
  work.recorded = !device::is_captured(stream);
  if (CUresult error = device::submit(stream, work)) return error;
  return work.recorded ? device::record_prefetch(address, size, work.device) : CUDA_SUCCESS;
}

CUresult prefetch_all(CUdeviceptr* addresses, size_t* sizes, size_t count, CUmemLocation* locations,
                      size_t* first, size_t location_count, unsigned long long flags, CUstream stream) {
  CUcontext context;
  if (CUresult error = device::enter(&context)) return error;
  if (!addresses || !sizes || !locations || !first || count == 0 || flags != 0 || location_count == 0 ||
      location_count > count || first[0] != 0)
    return CUDA_ERROR_INVALID_VALUE;
  if (!stream || stream == CU_STREAM_LEGACY) return CUDA_ERROR_INVALID_VALUE;  // "must not be legacy"
  for (size_t i = 1; i < location_count; ++i)
    if (first[i] <= first[i - 1] || first[i] >= count) return CUDA_ERROR_INVALID_VALUE;
  int device = 0;
  for (size_t i = 0; i < location_count; ++i)
    if (CUresult error = device_of(locations[i], &device)) return error;
  for (size_t i = 0; i < count; ++i)
    if (CUresult error = device::check_managed(addresses[i], sizes[i])) return error;
  for (size_t i = 0, where = 0; i < count; ++i) {
    if (where + 1 < location_count && first[where + 1] == i) ++where;
    if (CUresult error = prefetch(addresses[i], sizes[i], locations[where], 0, stream)) return error;
  }
  return CUDA_SUCCESS;
}

CUresult advise(CUdeviceptr address, size_t size, CUmem_advise advice, CUmemLocation location) {
  CUcontext context;
  if (CUresult error = device::enter(&context)) return error;
  int device = CU_DEVICE_CPU;
  // "The location argument is ignored for this advice."
  const bool ignored = advice == CU_MEM_ADVISE_SET_READ_MOSTLY || advice == CU_MEM_ADVISE_UNSET_READ_MOSTLY ||
                       advice == CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION;
  if (!ignored)
    if (CUresult error = device_of(location, &device)) return error;
  return device::advise(address, size, advice, device);
}

CUmemLocationType type_of(int device) {
  if (device == CU_DEVICE_INVALID) return CU_MEM_LOCATION_TYPE_INVALID;
  return device == CU_DEVICE_CPU ? CU_MEM_LOCATION_TYPE_HOST : CU_MEM_LOCATION_TYPE_DEVICE;
}

CUresult give(void* data, size_t size, int value) {
  if (size != sizeof value) return CUDA_ERROR_INVALID_VALUE;
  std::memcpy(data, &value, sizeof value);
  return CUDA_SUCCESS;
}

CUresult attribute(void* data, size_t size, CUmem_range_attribute which, const device::Advice& advice) {
  if (!data) return CUDA_ERROR_INVALID_VALUE;
  switch (which) {
    case CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY:
      return give(data, size, advice.read_mostly);
    case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION:
    case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_ID:
      return give(data, size, advice.preferred);
    case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE:
      return give(data, size, type_of(advice.preferred));
    case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION:
    case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_ID:
      return give(data, size, advice.prefetched);
    case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE:
      return give(data, size, type_of(advice.prefetched));
    case CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY: {
      if (size == 0 || size % sizeof(int)) return CUDA_ERROR_INVALID_VALUE;
      auto* list = static_cast<int*>(data);
      size_t room = size / sizeof(int);
      auto add = [&](int device) {
        if (room == 0) return;
        *list++ = device;
        --room;
      };
      for (int device = 0; device < 32; ++device)
        if (advice.accessed_by >> device & 1) add(device);
      if (advice.accessed_by_host) add(CU_DEVICE_CPU);
      while (room) add(CU_DEVICE_INVALID);
      return CUDA_SUCCESS;
    }
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

}  // namespace

extern "C" {

CROPDL_CALL_WITH_STREAM(cuMemPrefetchAsync_v2,
                        (CUdeviceptr address, size_t size, CUmemLocation location, unsigned flags,
                         CUstream stream),
                        prefetch(address, size, location, flags, stream))
CROPDL_CALL_WITH_STREAM(cuMemPrefetchAsync,
                        (CUdeviceptr address, size_t size, CUdevice device, CUstream stream),
                        prefetch(address, size, location_of(device), 0, stream))
CROPDL_CALL_WITH_STREAM(cuMemPrefetchBatchAsync,
                        (CUdeviceptr * addresses, size_t* sizes, size_t count, CUmemLocation* locations,
                         size_t* first, size_t location_count, unsigned long long flags, CUstream stream),
                        prefetch_all(addresses, sizes, count, locations, first, location_count, flags,
                                     stream))

CUresult cuMemAdvise_v2(CUdeviceptr address, size_t size, CUmem_advise advice, CUmemLocation location) {
  return advise(address, size, advice, location);
}
CUresult cuMemAdvise(CUdeviceptr address, size_t size, CUmem_advise advice, CUdevice device) {
  return advise(address, size, advice, location_of(device));
}

CUresult cuMemRangeGetAttribute(void* data, size_t data_size, CUmem_range_attribute which,
                                CUdeviceptr address, size_t size) {
  return cuMemRangeGetAttributes(&data, &data_size, &which, 1, address, size);
}

CUresult cuMemRangeGetAttributes(void** data, size_t* data_sizes, CUmem_range_attribute* which, size_t count,
                                 CUdeviceptr address, size_t size) {
  CUcontext context;
  if (CUresult error = device::enter(&context)) return error;
  if (!data || !data_sizes || !which || count == 0) return CUDA_ERROR_INVALID_VALUE;
  device::Advice advice;
  if (CUresult error = device::advice_for(address, size, &advice)) return error;
  for (size_t i = 0; i < count; ++i)
    if (CUresult error = attribute(data[i], data_sizes[i], which[i], advice)) return error;
  return CUDA_SUCCESS;
}

}  // extern "C"
