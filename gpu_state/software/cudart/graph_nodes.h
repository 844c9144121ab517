// Converts parameters of graph nodes to the driver's and back. The driver's also need the calling thread's
// context. After enter().
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

namespace cropdl::cudart {

CUcontext current_context();

// A kernel: the symbol becomes the function; the reverse returns the symbol by which it was looked up.
cudaError_t as_kernel(const void* symbol, const dim3& grid, const dim3& block, unsigned shared,
                      void** arguments, void** extra, CUDA_KERNEL_NODE_PARAMS* kernel);
void* symbol_for_caller(const CUDA_KERNEL_NODE_PARAMS& kernel);

// One row of linear memory.
cudaError_t as_node_copy(void* destination, const void* source, size_t count, cudaMemcpyKind kind,
                         CUDA_MEMCPY3D* copy);
cudaError_t from_copy(const CUDA_MEMCPY3D& copy, cudaMemcpy3DParms* parms);

// Any kind. After the driver has made the node, `hand_back` returns results to the caller: `phGraph_out` of a
// conditional node, the address of an allocation.
cudaError_t as_node(const cudaGraphNodeParams& params, CUgraphNodeParams* node);
void hand_back(const CUgraphNodeParams& node, cudaGraphNodeParams* params);

}  // namespace cropdl::cudart
