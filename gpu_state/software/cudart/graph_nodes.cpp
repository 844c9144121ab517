// Conversions (graph_nodes.h).
#include "gpu_state/software/cudart/graph_nodes.h"

#include <bit>
#include <initializer_list>

#include "gpu_state/software/cudart/copies.h"
#include "gpu_state/software/cudart/runtime.h"
#include "gpu_state/software/cudart/symbols.h"
#include "gpu_state/software/settings/settings.h"

namespace cropdl::cudart {
namespace {

cudaError_t as_memset(const cudaMemsetParamsV2& from, CUDA_MEMSET_NODE_PARAMS_v2* to) {
  to->dst = as_device(from.dst);
  to->pitch = from.pitch;
  to->value = from.value;
  to->elementSize = from.elementSize;
  to->width = from.width;
  to->height = from.height;
  to->ctx = current_context();
  return cudaSuccess;
}

bool is_host(CUmemorytype type) { return type == CU_MEMORYTYPE_HOST; }

// Arrays are device memory; a unified address does not say on which side it is.
cudaMemcpyKind kind_of(CUmemorytype source, CUmemorytype destination) {
  if (source == CU_MEMORYTYPE_UNIFIED || destination == CU_MEMORYTYPE_UNIFIED) return cudaMemcpyDefault;
  if (is_host(source)) return is_host(destination) ? cudaMemcpyHostToHost : cudaMemcpyHostToDevice;
  return is_host(destination) ? cudaMemcpyDeviceToHost : cudaMemcpyDeviceToDevice;
}

}  // namespace

CUcontext current_context() {
  CUcontext context = nullptr;
  cuCtxGetCurrent(&context);
  return context;
}

cudaError_t as_kernel(const void* symbol, const dim3& grid, const dim3& block, unsigned shared,
                      void** arguments, void** extra, CUDA_KERNEL_NODE_PARAMS* kernel) {
  *kernel = {};
  kernel->gridDimX = grid.x;
  kernel->gridDimY = grid.y;
  kernel->gridDimZ = grid.z;
  kernel->blockDimX = block.x;
  kernel->blockDimY = block.y;
  kernel->blockDimZ = block.z;
  kernel->sharedMemBytes = shared;
  kernel->kernelParams = arguments;
  kernel->extra = extra;
  kernel->ctx = current_context();
  return function_of(symbol, &kernel->func);
}

void* symbol_for_caller(const CUDA_KERNEL_NODE_PARAMS& kernel) {
  CUfunction function = kernel.func;
  if (!function && kernel.kern && cuKernelGetFunction(&function, kernel.kern) != CUDA_SUCCESS)
    return kernel.kern;
  const void* symbol = symbol_of(function);
  return symbol ? const_cast<void*>(symbol) : function;
}

cudaError_t as_node_copy(void* destination, const void* source, size_t count, cudaMemcpyKind kind,
                         CUDA_MEMCPY3D* copy) {
  cudaMemcpy3DParms parms = {};
  parms.srcPtr = {const_cast<void*>(source), count, count, 1};
  parms.dstPtr = {destination, count, count, 1};
  parms.extent = {count, 1, 1};
  parms.kind = kind;
  return as_copy(parms, copy);
}

cudaError_t from_copy(const CUDA_MEMCPY3D& copy, cudaMemcpy3DParms* parms) {
  *parms = {};
  size_t element = 1;
  for (const CUarray array : {copy.srcArray, copy.dstArray})
    if (array) {
      const CUresult result = element_bytes(array, &element);
      if (result != CUDA_SUCCESS) return as_error(result);
    }
  parms->extent = {copy.WidthInBytes / element, copy.Height, copy.Depth};
  parms->kind = kind_of(copy.srcMemoryType, copy.dstMemoryType);
  if (copy.srcMemoryType == CU_MEMORYTYPE_ARRAY) {
    parms->srcArray = reinterpret_cast<cudaArray_t>(copy.srcArray);
    parms->srcPos = {copy.srcXInBytes / element, copy.srcY, copy.srcZ};
  } else {
    void* pointer =
        is_host(copy.srcMemoryType) ? const_cast<void*>(copy.srcHost) : as_pointer(copy.srcDevice);
    parms->srcPtr = {pointer, copy.srcPitch, copy.WidthInBytes, copy.srcHeight};
    parms->srcPos = {copy.srcXInBytes, copy.srcY, copy.srcZ};
  }
  if (copy.dstMemoryType == CU_MEMORYTYPE_ARRAY) {
    parms->dstArray = reinterpret_cast<cudaArray_t>(copy.dstArray);
    parms->dstPos = {copy.dstXInBytes / element, copy.dstY, copy.dstZ};
  } else {
    void* pointer = is_host(copy.dstMemoryType) ? copy.dstHost : as_pointer(copy.dstDevice);
    parms->dstPtr = {pointer, copy.dstPitch, copy.WidthInBytes, copy.dstHeight};
    parms->dstPos = {copy.dstXInBytes, copy.dstY, copy.dstZ};
  }
  return cudaSuccess;
}

cudaError_t as_node(const cudaGraphNodeParams& params, CUgraphNodeParams* node) {
  static_assert(int{cudaGraphNodeTypeConditional} == int{CU_GRAPH_NODE_TYPE_CONDITIONAL} &&
                int{cudaGraphNodeTypeMemFree} == int{CU_GRAPH_NODE_TYPE_MEM_FREE} &&
                int{cudaGraphNodeTypeEventRecord} == int{CU_GRAPH_NODE_TYPE_EVENT_RECORD});
  *node = {};
  node->type = static_cast<CUgraphNodeType>(params.type);
  switch (params.type) {
    case cudaGraphNodeTypeKernel: {
      CUDA_KERNEL_NODE_PARAMS kernel;
      const cudaError_t error =
          as_kernel(params.kernel.func, params.kernel.gridDim, params.kernel.blockDim,
                    params.kernel.sharedMemBytes, params.kernel.kernelParams, params.kernel.extra, &kernel);
      // These two versions of the structure are equal.
      node->kernel = std::bit_cast<CUDA_KERNEL_NODE_PARAMS_v3>(kernel);
      return error;
    }
    case cudaGraphNodeTypeMemcpy:
      node->memcpy.flags = params.memcpy.flags;
      node->memcpy.copyCtx = current_context();
      return as_copy(params.memcpy.copyParams, &node->memcpy.copyParams);
    case cudaGraphNodeTypeMemset:
      return as_memset(params.memset, &node->memset);
    case cudaGraphNodeTypeHost:
      node->host.fn = params.host.fn;
      node->host.userData = params.host.userData;
      return cudaSuccess;
    case cudaGraphNodeTypeGraph:
      node->graph.graph = params.graph.graph;
      node->graph.ownership = static_cast<CUgraphChildGraphNodeOwnership>(params.graph.ownership);
      return cudaSuccess;
    case cudaGraphNodeTypeEmpty:
      return cudaSuccess;
    case cudaGraphNodeTypeWaitEvent:
      node->eventWait.event = params.eventWait.event;
      return cudaSuccess;
    case cudaGraphNodeTypeEventRecord:
      node->eventRecord.event = params.eventRecord.event;
      return cudaSuccess;
    case cudaGraphNodeTypeMemAlloc:
      node->alloc = *same<const CUDA_MEM_ALLOC_NODE_PARAMS_v2>(&params.alloc);
      return cudaSuccess;
    case cudaGraphNodeTypeMemFree:
      node->free.dptr = as_device(params.free.dptr);
      return cudaSuccess;
    case cudaGraphNodeTypeConditional:
      node->conditional.handle = params.conditional.handle;
      node->conditional.type = static_cast<CUgraphConditionalNodeType>(params.conditional.type);
      node->conditional.size = params.conditional.size;
      node->conditional.ctx = current_context();
      return cudaSuccess;
    case cudaGraphNodeTypeExtSemaphoreSignal:
    case cudaGraphNodeTypeExtSemaphoreWait:
      settings::say_not_built("a graph's node for external semaphores");
      return cudaErrorNotSupported;
    default:
      return cudaErrorInvalidValue;
  }
}

void hand_back(const CUgraphNodeParams& node, cudaGraphNodeParams* params) {
  if (params->type == cudaGraphNodeTypeMemAlloc) params->alloc.dptr = as_pointer(node.alloc.dptr);
  if (params->type == cudaGraphNodeTypeConditional)
    params->conditional.phGraph_out = node.conditional.phGraph_out;
}

}  // namespace cropdl::cudart
