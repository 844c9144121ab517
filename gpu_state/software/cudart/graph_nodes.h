// Parameters of graphs' nodes in the driver's words, and back. What the driver wants besides is the calling
// thread's context. After enter().
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

namespace cropdl::cudart {

CUcontext current_context();

// A kernel: the symbol becomes the function; on the way back the symbol that it was found by.
cudaError_t as_kernel(const void* symbol, const dim3& grid, const dim3& block, unsigned shared,
                      void** arguments, void** extra, CUDA_KERNEL_NODE_PARAMS* kernel);
void* symbol_for_caller(const CUDA_KERNEL_NODE_PARAMS& kernel);

// One row of linear memory.
cudaError_t as_node_copy(void* destination, const void* source, size_t count, cudaMemcpyKind kind,
                         CUDA_MEMCPY3D* copy);
cudaError_t from_copy(const CUDA_MEMCPY3D& copy, cudaMemcpy3DParms* parms);

// Of any kind. Of the children the caller's `phGraph_out`, of an allocation the address, are handed back by
// `hand_back` once the driver has made the node.
cudaError_t as_node(const cudaGraphNodeParams& params, CUgraphNodeParams* node);
void hand_back(const CUgraphNodeParams& node, cudaGraphNodeParams* params);

}  // namespace cropdl::cudart
