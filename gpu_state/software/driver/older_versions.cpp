// Older versions of functions with fewer parameters, for programs built with an older toolkit and for
// cuGetProcAddress with a version. (Versions before CUDA 3.2, with 32-bit device pointers, are not built.)
#include <cuda.h>

namespace {

CUDA_KERNEL_NODE_PARAMS_v2 newer(const CUDA_KERNEL_NODE_PARAMS_v1& old) {
  return {old.func,      old.gridDimX,       old.gridDimY,     old.gridDimZ, old.blockDimX, old.blockDimY,
          old.blockDimZ, old.sharedMemBytes, old.kernelParams, old.extra,    nullptr,       nullptr};
}

}  // namespace

extern "C" {

CUresult cuStreamDestroy(CUstream stream) { return cuStreamDestroy_v2(stream); }
CUresult cuEventDestroy(CUevent event) { return cuEventDestroy_v2(event); }
CUresult cuMemAllocHost(void** address, unsigned int size) { return cuMemAllocHost_v2(address, size); }
CUresult cuMemHostRegister(void* address, size_t size, unsigned int flags) {
  return cuMemHostRegister_v2(address, size, flags);
}

// Before CUDA 10.1, captures used the strictest mode.
CUresult cuStreamBeginCapture(CUstream stream) {
  return cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
}
CUresult cuStreamBeginCapture_ptsz(CUstream stream) {
  return cuStreamBeginCapture_v2_ptsz(stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
}

// Returns no error node, and an empty error text.
CUresult cuGraphInstantiate_v2(CUgraphExec* made, CUgraph graph, CUgraphNode* wrong, char* text,
                               size_t size) {
  if (wrong) *wrong = nullptr;
  if (text && size) *text = 0;
  return cuGraphInstantiateWithFlags(made, graph, 0);
}
CUresult cuGraphInstantiate(CUgraphExec* made, CUgraph graph, CUgraphNode* wrong, char* text, size_t size) {
  return cuGraphInstantiate_v2(made, graph, wrong, text, size);
}

CUresult cuGraphExecUpdate(CUgraphExec made, CUgraph graph, CUgraphNode* wrong,
                           CUgraphExecUpdateResult* result) {
  CUgraphExecUpdateResultInfo info{};
  CUresult error = cuGraphExecUpdate_v2(made, graph, &info);
  if (wrong) *wrong = info.errorNode;
  if (result) *result = info.result;
  return error;
}

CUresult cuGraphAddNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* after, size_t count,
                        CUgraphNodeParams* parameters) {
  return cuGraphAddNode_v2(node, graph, after, nullptr, count, parameters);
}

CUresult cuGraphAddKernelNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* after, size_t count,
                              const CUDA_KERNEL_NODE_PARAMS_v1* parameters) {
  if (!parameters) return CUDA_ERROR_INVALID_VALUE;
  CUDA_KERNEL_NODE_PARAMS_v2 full = newer(*parameters);
  return cuGraphAddKernelNode_v2(node, graph, after, count, &full);
}

CUresult cuGraphKernelNodeGetParams(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS_v1* parameters) {
  if (!parameters) return CUDA_ERROR_INVALID_VALUE;
  CUDA_KERNEL_NODE_PARAMS_v2 full{};
  if (CUresult error = cuGraphKernelNodeGetParams_v2(node, &full)) return error;
  *parameters = {full.func,      full.gridDimX,  full.gridDimY,       full.gridDimZ,     full.blockDimX,
                 full.blockDimY, full.blockDimZ, full.sharedMemBytes, full.kernelParams, full.extra};
  return CUDA_SUCCESS;
}

CUresult cuGraphKernelNodeSetParams(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v1* parameters) {
  if (!parameters) return CUDA_ERROR_INVALID_VALUE;
  CUDA_KERNEL_NODE_PARAMS_v2 full = newer(*parameters);
  return cuGraphKernelNodeSetParams_v2(node, &full);
}

CUresult cuGraphExecKernelNodeSetParams(CUgraphExec made, CUgraphNode node,
                                        const CUDA_KERNEL_NODE_PARAMS_v1* parameters) {
  if (!parameters) return CUDA_ERROR_INVALID_VALUE;
  CUDA_KERNEL_NODE_PARAMS_v2 full = newer(*parameters);
  return cuGraphExecKernelNodeSetParams_v2(made, node, &full);
}

}  // extern "C"
