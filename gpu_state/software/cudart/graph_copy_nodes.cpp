// Copy nodes of graphs: of any shape, of one row, to and from variables. Source: CUDA Runtime API 13.0,
// "Graph Management".
#include "gpu_state/software/cudart/copies.h"
#include "gpu_state/software/cudart/graph_nodes.h"
#include "gpu_state/software/cudart/runtime.h"

using namespace cropdl::cudart;

namespace {

template <class Describe, class Do>
cudaError_t with_copy(Describe&& describe_copy, Do&& what) {
  return run([&] {
    CUDA_MEMCPY3D copy;
    const cudaError_t error = describe_copy(&copy);
    return error == cudaSuccess ? as_error(what(copy)) : error;
  });
}

auto whole(const cudaMemcpy3DParms* params) {
  return [=](CUDA_MEMCPY3D* copy) { return params ? as_copy(*params, copy) : cudaErrorInvalidValue; };
}

// Common to the three functions for one-row copies.
auto row(void* destination, const void* source, size_t count, cudaMemcpyKind kind) {
  return [=](CUDA_MEMCPY3D* copy) { return as_node_copy(destination, source, count, kind, copy); };
}
auto row_to(const void* symbol, const void* source, size_t count, size_t offset, cudaMemcpyKind kind) {
  return [=](CUDA_MEMCPY3D* copy) {
    CUdeviceptr address = 0;
    const cudaError_t error = part_of_variable(symbol, offset, count, kind, true, &address);
    return error == cudaSuccess ? as_node_copy(as_pointer(address), source, count, kind, copy) : error;
  };
}
auto row_from(void* destination, const void* symbol, size_t count, size_t offset, cudaMemcpyKind kind) {
  return [=](CUDA_MEMCPY3D* copy) {
    CUdeviceptr address = 0;
    const cudaError_t error = part_of_variable(symbol, offset, count, kind, false, &address);
    return error == cudaSuccess ? as_node_copy(destination, as_pointer(address), count, kind, copy) : error;
  };
}

auto add_copy(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* before, size_t count) {
  return [=](const CUDA_MEMCPY3D& copy) {
    return cuGraphAddMemcpyNode(node, graph, before, count, &copy, current_context());
  };
}
auto set_copy(cudaGraphNode_t node) {
  return [=](const CUDA_MEMCPY3D& copy) { return cuGraphMemcpyNodeSetParams(node, &copy); };
}
auto set_copy(cudaGraphExec_t graph, cudaGraphNode_t node) {
  return [=](const CUDA_MEMCPY3D& copy) {
    return cuGraphExecMemcpyNodeSetParams(graph, node, &copy, current_context());
  };
}

}  // namespace

extern "C" {

cudaError_t cudaGraphAddMemcpyNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* before,
                                   size_t count, const cudaMemcpy3DParms* params) {
  return with_copy(whole(params), add_copy(node, graph, before, count));
}

cudaError_t cudaGraphAddMemcpyNode1D(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* before,
                                     size_t count, void* destination, const void* source, size_t bytes,
                                     cudaMemcpyKind kind) {
  return with_copy(row(destination, source, bytes, kind), add_copy(node, graph, before, count));
}

cudaError_t cudaGraphAddMemcpyNodeToSymbol(cudaGraphNode_t* node, cudaGraph_t graph,
                                           const cudaGraphNode_t* before, size_t count, const void* symbol,
                                           const void* source, size_t bytes, size_t offset,
                                           cudaMemcpyKind kind) {
  return with_copy(row_to(symbol, source, bytes, offset, kind), add_copy(node, graph, before, count));
}

cudaError_t cudaGraphAddMemcpyNodeFromSymbol(cudaGraphNode_t* node, cudaGraph_t graph,
                                             const cudaGraphNode_t* before, size_t count, void* destination,
                                             const void* symbol, size_t bytes, size_t offset,
                                             cudaMemcpyKind kind) {
  return with_copy(row_from(destination, symbol, bytes, offset, kind), add_copy(node, graph, before, count));
}

cudaError_t cudaGraphMemcpyNodeGetParams(cudaGraphNode_t node, cudaMemcpy3DParms* params) {
  return run([&] {
    if (!params) return cudaErrorInvalidValue;
    CUDA_MEMCPY3D copy = {};
    const CUresult result = cuGraphMemcpyNodeGetParams(node, &copy);
    return result == CUDA_SUCCESS ? from_copy(copy, params) : as_error(result);
  });
}

cudaError_t cudaGraphMemcpyNodeSetParams(cudaGraphNode_t node, const cudaMemcpy3DParms* params) {
  return with_copy(whole(params), set_copy(node));
}

cudaError_t cudaGraphMemcpyNodeSetParams1D(cudaGraphNode_t node, void* destination, const void* source,
                                           size_t bytes, cudaMemcpyKind kind) {
  return with_copy(row(destination, source, bytes, kind), set_copy(node));
}

cudaError_t cudaGraphMemcpyNodeSetParamsToSymbol(cudaGraphNode_t node, const void* symbol, const void* source,
                                                 size_t bytes, size_t offset, cudaMemcpyKind kind) {
  return with_copy(row_to(symbol, source, bytes, offset, kind), set_copy(node));
}

cudaError_t cudaGraphMemcpyNodeSetParamsFromSymbol(cudaGraphNode_t node, void* destination,
                                                   const void* symbol, size_t bytes, size_t offset,
                                                   cudaMemcpyKind kind) {
  return with_copy(row_from(destination, symbol, bytes, offset, kind), set_copy(node));
}

cudaError_t cudaGraphExecMemcpyNodeSetParams(cudaGraphExec_t graph, cudaGraphNode_t node,
                                             const cudaMemcpy3DParms* params) {
  return with_copy(whole(params), set_copy(graph, node));
}

cudaError_t cudaGraphExecMemcpyNodeSetParams1D(cudaGraphExec_t graph, cudaGraphNode_t node, void* destination,
                                               const void* source, size_t bytes, cudaMemcpyKind kind) {
  return with_copy(row(destination, source, bytes, kind), set_copy(graph, node));
}

cudaError_t cudaGraphExecMemcpyNodeSetParamsToSymbol(cudaGraphExec_t graph, cudaGraphNode_t node,
                                                     const void* symbol, const void* source, size_t bytes,
                                                     size_t offset, cudaMemcpyKind kind) {
  return with_copy(row_to(symbol, source, bytes, offset, kind), set_copy(graph, node));
}

cudaError_t cudaGraphExecMemcpyNodeSetParamsFromSymbol(cudaGraphExec_t graph, cudaGraphNode_t node,
                                                       void* destination, const void* symbol, size_t bytes,
                                                       size_t offset, cudaMemcpyKind kind) {
  return with_copy(row_from(destination, symbol, bytes, offset, kind), set_copy(graph, node));
}
}
