// Graph nodes by kind: added, queried and changed, in a graph and in an instance. Source: CUDA Runtime API
// 13.0, "Graph Management".
#include "gpu_state/software/cudart/graph_nodes.h"
#include "gpu_state/software/cudart/runtime.h"

using namespace cropdl::cudart;

namespace {

cudaError_t describe(const cudaKernelNodeParams* params, CUDA_KERNEL_NODE_PARAMS* kernel) {
  if (!params) return cudaErrorInvalidValue;
  return as_kernel(params->func, params->gridDim, params->blockDim, params->sharedMemBytes,
                   params->kernelParams, params->extra, kernel);
}

cudaError_t describe(const cudaMemsetParams* params, CUDA_MEMSET_NODE_PARAMS* fill) {
  if (!params) return cudaErrorInvalidValue;
  *fill = {as_device(params->dst), params->pitch, params->value,
           params->elementSize,    params->width, params->height};
  return cudaSuccess;
}

// Converts the description, then passes it to the driver.
template <class Description, class Params, class Do>
cudaError_t with(const Params* params, Do&& what) {
  return run([&] {
    Description description;
    const cudaError_t error = describe(params, &description);
    return error == cudaSuccess ? as_error(what(description)) : error;
  });
}

template <class Do>
cudaError_t with_params(cudaGraphNodeParams* params, Do&& what) {
  return run([&] {
    if (!params) return cudaErrorInvalidValue;
    CUgraphNodeParams node;
    const cudaError_t error = as_node(*params, &node);
    if (error != cudaSuccess) return error;
    const CUresult result = what(node);
    if (result == CUDA_SUCCESS) hand_back(node, params);
    return as_error(result);
  });
}

const CUDA_HOST_NODE_PARAMS* as_host(const cudaHostNodeParams* params) {
  return same<const CUDA_HOST_NODE_PARAMS>(params);
}

}  // namespace

extern "C" {

// Kernels.

cudaError_t cudaGraphAddKernelNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* before,
                                   size_t count, const cudaKernelNodeParams* params) {
  return with<CUDA_KERNEL_NODE_PARAMS>(params, [&](const CUDA_KERNEL_NODE_PARAMS& kernel) {
    return cuGraphAddKernelNode(node, graph, before, count, &kernel);
  });
}

cudaError_t cudaGraphKernelNodeGetParams(cudaGraphNode_t node, cudaKernelNodeParams* params) {
  return run([&] {
    if (!params) return CUDA_ERROR_INVALID_VALUE;
    CUDA_KERNEL_NODE_PARAMS kernel = {};
    const CUresult result = cuGraphKernelNodeGetParams(node, &kernel);
    if (result != CUDA_SUCCESS) return result;
    params->func = symbol_for_caller(kernel);
    params->gridDim = {kernel.gridDimX, kernel.gridDimY, kernel.gridDimZ};
    params->blockDim = {kernel.blockDimX, kernel.blockDimY, kernel.blockDimZ};
    params->sharedMemBytes = kernel.sharedMemBytes;
    params->kernelParams = kernel.kernelParams;
    params->extra = kernel.extra;
    return result;
  });
}

cudaError_t cudaGraphKernelNodeSetParams(cudaGraphNode_t node, const cudaKernelNodeParams* params) {
  return with<CUDA_KERNEL_NODE_PARAMS>(params, [&](const CUDA_KERNEL_NODE_PARAMS& kernel) {
    return cuGraphKernelNodeSetParams(node, &kernel);
  });
}

cudaError_t cudaGraphExecKernelNodeSetParams(cudaGraphExec_t graph, cudaGraphNode_t node,
                                             const cudaKernelNodeParams* params) {
  return with<CUDA_KERNEL_NODE_PARAMS>(params, [&](const CUDA_KERNEL_NODE_PARAMS& kernel) {
    return cuGraphExecKernelNodeSetParams(graph, node, &kernel);
  });
}

cudaError_t cudaGraphKernelNodeCopyAttributes(cudaGraphNode_t destination, cudaGraphNode_t source) {
  return run([&] { return cuGraphKernelNodeCopyAttributes(destination, source); });
}

cudaError_t cudaGraphKernelNodeGetAttribute(cudaGraphNode_t node, cudaKernelNodeAttrID attribute,
                                            cudaKernelNodeAttrValue* value) {
  return run([&] {
    return cuGraphKernelNodeGetAttribute(node, static_cast<CUkernelNodeAttrID>(attribute),
                                         same<CUkernelNodeAttrValue>(value));
  });
}

cudaError_t cudaGraphKernelNodeSetAttribute(cudaGraphNode_t node, cudaKernelNodeAttrID attribute,
                                            const cudaKernelNodeAttrValue* value) {
  return run([&] {
    return cuGraphKernelNodeSetAttribute(node, static_cast<CUkernelNodeAttrID>(attribute),
                                         same<const CUkernelNodeAttrValue>(value));
  });
}

// Fills.

cudaError_t cudaGraphAddMemsetNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* before,
                                   size_t count, const cudaMemsetParams* params) {
  return with<CUDA_MEMSET_NODE_PARAMS>(params, [&](const CUDA_MEMSET_NODE_PARAMS& fill) {
    return cuGraphAddMemsetNode(node, graph, before, count, &fill, current_context());
  });
}

cudaError_t cudaGraphMemsetNodeGetParams(cudaGraphNode_t node, cudaMemsetParams* params) {
  return run([&] {
    if (!params) return CUDA_ERROR_INVALID_VALUE;
    CUDA_MEMSET_NODE_PARAMS fill = {};
    const CUresult result = cuGraphMemsetNodeGetParams(node, &fill);
    if (result == CUDA_SUCCESS)
      *params = {as_pointer(fill.dst), fill.pitch, fill.value, fill.elementSize, fill.width, fill.height};
    return result;
  });
}

cudaError_t cudaGraphMemsetNodeSetParams(cudaGraphNode_t node, const cudaMemsetParams* params) {
  return with<CUDA_MEMSET_NODE_PARAMS>(
      params, [&](const CUDA_MEMSET_NODE_PARAMS& fill) { return cuGraphMemsetNodeSetParams(node, &fill); });
}

cudaError_t cudaGraphExecMemsetNodeSetParams(cudaGraphExec_t graph, cudaGraphNode_t node,
                                             const cudaMemsetParams* params) {
  return with<CUDA_MEMSET_NODE_PARAMS>(params, [&](const CUDA_MEMSET_NODE_PARAMS& fill) {
    return cuGraphExecMemsetNodeSetParams(graph, node, &fill, current_context());
  });
}

// Host functions.

cudaError_t cudaGraphAddHostNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* before,
                                 size_t count, const cudaHostNodeParams* params) {
  return run([&] { return cuGraphAddHostNode(node, graph, before, count, as_host(params)); });
}

cudaError_t cudaGraphHostNodeGetParams(cudaGraphNode_t node, cudaHostNodeParams* params) {
  return run([&] { return cuGraphHostNodeGetParams(node, same<CUDA_HOST_NODE_PARAMS>(params)); });
}

cudaError_t cudaGraphHostNodeSetParams(cudaGraphNode_t node, const cudaHostNodeParams* params) {
  return run([&] { return cuGraphHostNodeSetParams(node, as_host(params)); });
}

cudaError_t cudaGraphExecHostNodeSetParams(cudaGraphExec_t graph, cudaGraphNode_t node,
                                           const cudaHostNodeParams* params) {
  return run([&] { return cuGraphExecHostNodeSetParams(graph, node, as_host(params)); });
}

// Child graphs and empty nodes.

cudaError_t cudaGraphAddChildGraphNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                       const cudaGraphNode_t* before, size_t count, cudaGraph_t child) {
  return run([&] { return cuGraphAddChildGraphNode(node, graph, before, count, child); });
}

cudaError_t cudaGraphChildGraphNodeGetGraph(cudaGraphNode_t node, cudaGraph_t* child) {
  return run([&] { return cuGraphChildGraphNodeGetGraph(node, child); });
}

cudaError_t cudaGraphExecChildGraphNodeSetParams(cudaGraphExec_t graph, cudaGraphNode_t node,
                                                 cudaGraph_t child) {
  return run([&] { return cuGraphExecChildGraphNodeSetParams(graph, node, child); });
}

cudaError_t cudaGraphAddEmptyNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* before,
                                  size_t count) {
  return run([&] { return cuGraphAddEmptyNode(node, graph, before, count); });
}

// Events.

cudaError_t cudaGraphAddEventRecordNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                        const cudaGraphNode_t* before, size_t count, cudaEvent_t event) {
  return run([&] { return cuGraphAddEventRecordNode(node, graph, before, count, event); });
}

cudaError_t cudaGraphEventRecordNodeGetEvent(cudaGraphNode_t node, cudaEvent_t* event) {
  return run([&] { return cuGraphEventRecordNodeGetEvent(node, event); });
}

cudaError_t cudaGraphEventRecordNodeSetEvent(cudaGraphNode_t node, cudaEvent_t event) {
  return run([&] { return cuGraphEventRecordNodeSetEvent(node, event); });
}

cudaError_t cudaGraphExecEventRecordNodeSetEvent(cudaGraphExec_t graph, cudaGraphNode_t node,
                                                 cudaEvent_t event) {
  return run([&] { return cuGraphExecEventRecordNodeSetEvent(graph, node, event); });
}

cudaError_t cudaGraphAddEventWaitNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* before,
                                      size_t count, cudaEvent_t event) {
  return run([&] { return cuGraphAddEventWaitNode(node, graph, before, count, event); });
}

cudaError_t cudaGraphEventWaitNodeGetEvent(cudaGraphNode_t node, cudaEvent_t* event) {
  return run([&] { return cuGraphEventWaitNodeGetEvent(node, event); });
}

cudaError_t cudaGraphEventWaitNodeSetEvent(cudaGraphNode_t node, cudaEvent_t event) {
  return run([&] { return cuGraphEventWaitNodeSetEvent(node, event); });
}

cudaError_t cudaGraphExecEventWaitNodeSetEvent(cudaGraphExec_t graph, cudaGraphNode_t node,
                                               cudaEvent_t event) {
  return run([&] { return cuGraphExecEventWaitNodeSetEvent(graph, node, event); });
}

// Memory allocated by a graph.

cudaError_t cudaGraphAddMemAllocNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* before,
                                     size_t count, cudaMemAllocNodeParams* params) {
  return run([&] {
    return cuGraphAddMemAllocNode(node, graph, before, count, same<CUDA_MEM_ALLOC_NODE_PARAMS>(params));
  });
}

cudaError_t cudaGraphMemAllocNodeGetParams(cudaGraphNode_t node, cudaMemAllocNodeParams* params) {
  return run([&] { return cuGraphMemAllocNodeGetParams(node, same<CUDA_MEM_ALLOC_NODE_PARAMS>(params)); });
}

cudaError_t cudaGraphAddMemFreeNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* before,
                                    size_t count, void* pointer) {
  return run([&] { return cuGraphAddMemFreeNode(node, graph, before, count, as_device(pointer)); });
}

// `pointer`: where the address is written.
cudaError_t cudaGraphMemFreeNodeGetParams(cudaGraphNode_t node, void* pointer) {
  return run([&] { return cuGraphMemFreeNodeGetParams(node, static_cast<CUdeviceptr*>(pointer)); });
}

// Any kind.

cudaError_t cudaGraphAddNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* before,
                             const cudaGraphEdgeData* edges, size_t count, cudaGraphNodeParams* params) {
  return with_params(params, [&](CUgraphNodeParams& wanted) {
    return cuGraphAddNode(node, graph, before, same<const CUgraphEdgeData>(edges), count, &wanted);
  });
}

cudaError_t cudaGraphNodeSetParams(cudaGraphNode_t node, cudaGraphNodeParams* params) {
  return with_params(params, [&](CUgraphNodeParams& wanted) { return cuGraphNodeSetParams(node, &wanted); });
}

cudaError_t cudaGraphExecNodeSetParams(cudaGraphExec_t graph, cudaGraphNode_t node,
                                       cudaGraphNodeParams* params) {
  return with_params(
      params, [&](CUgraphNodeParams& wanted) { return cuGraphExecNodeSetParams(graph, node, &wanted); });
}
}
