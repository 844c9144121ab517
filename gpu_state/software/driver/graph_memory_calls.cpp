// Device memory held by graphs' allocation nodes. Source: CUDA Driver API, cuDeviceGetGraphMemAttribute and
// its two neighbours.
#include <cuda.h>

#include "gpu_state/software/device/context.h"
#include "gpu_state/software/device/device.h"
#include "gpu_state/software/device/graphs_memory.h"

using namespace cropdl;

namespace {

CUresult check_device(CUdevice device) {
  if (CUresult error = device::initialized()) return error;
  return device::find(device) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

}  // namespace

extern "C" {

CUresult cuDeviceGetGraphMemAttribute(CUdevice device, CUgraphMem_attribute which, void* value) {
  if (CUresult error = check_device(device)) return error;
  if (!value) return CUDA_ERROR_INVALID_VALUE;
  device::GraphMemory memory = device::graph_memory(device);
  auto* number = static_cast<cuuint64_t*>(value);
  switch (which) {
    case CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT:
      *number = memory.used;
      return CUDA_SUCCESS;
    case CU_GRAPH_MEM_ATTR_USED_MEM_HIGH:
      *number = memory.used_high;
      return CUDA_SUCCESS;
    case CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT:
      *number = memory.reserved;
      return CUDA_SUCCESS;
    case CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH:
      *number = memory.reserved_high;
      return CUDA_SUCCESS;
  }
  return CUDA_ERROR_INVALID_VALUE;
}

// "High watermark can only be reset to zero": it becomes the present use.
CUresult cuDeviceSetGraphMemAttribute(CUdevice device, CUgraphMem_attribute which, void* value) {
  if (CUresult error = check_device(device)) return error;
  if (!value || *static_cast<cuuint64_t*>(value) != 0) return CUDA_ERROR_INVALID_VALUE;
  if (which != CU_GRAPH_MEM_ATTR_USED_MEM_HIGH && which != CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH)
    return CUDA_ERROR_INVALID_VALUE;
  device::reset_graph_memory_high(device, which == CU_GRAPH_MEM_ATTR_USED_MEM_HIGH);
  return CUDA_SUCCESS;
}

// Graphs release their memory when they are destroyed: nothing to trim.
CUresult cuDeviceGraphMemTrim(CUdevice device) { return check_device(device); }

}  // extern "C"
