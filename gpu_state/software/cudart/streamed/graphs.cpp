// Capture of streams into graphs, and graphs that run in streams. Compiled twice (launches.cpp).
#include "gpu_state/software/cudart/runtime.h"

using namespace cropdl::cudart;

extern "C" {

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  return run([&] { return cuStreamBeginCapture(stream, static_cast<CUstreamCaptureMode>(mode)); });
}

cudaError_t cudaStreamBeginCaptureToGraph(cudaStream_t stream, cudaGraph_t graph,
                                          const cudaGraphNode_t* before, const cudaGraphEdgeData* edges,
                                          size_t count, cudaStreamCaptureMode mode) {
  return run([&] {
    return cuStreamBeginCaptureToGraph(stream, graph, before, same<const CUgraphEdgeData>(edges), count,
                                       static_cast<CUstreamCaptureMode>(mode));
  });
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  return run([&] { return cuStreamEndCapture(stream, graph); });
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  return run([&] { return cuStreamIsCapturing(stream, reinterpret_cast<CUstreamCaptureStatus*>(status)); });
}

cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus* status,
                                     unsigned long long* id, cudaGraph_t* graph,
                                     const cudaGraphNode_t** before, const cudaGraphEdgeData** edges,
                                     size_t* count) {
  return run([&] {
    return cuStreamGetCaptureInfo(stream, reinterpret_cast<CUstreamCaptureStatus*>(status),
                                  reinterpret_cast<cuuint64_t*>(id), graph, before,
                                  reinterpret_cast<const CUgraphEdgeData**>(edges), count);
  });
}

cudaError_t cudaStreamUpdateCaptureDependencies(cudaStream_t stream, cudaGraphNode_t* before,
                                                const cudaGraphEdgeData* edges, size_t count,
                                                unsigned flags) {
  return run([&] {
    return cuStreamUpdateCaptureDependencies(stream, before, same<const CUgraphEdgeData>(edges), count,
                                             flags);
  });
}

cudaError_t cudaGraphInstantiateWithParams(cudaGraphExec_t* instance, cudaGraph_t graph,
                                           cudaGraphInstantiateParams* params) {
  return run([&] {
    return cuGraphInstantiateWithParams(instance, graph, same<CUDA_GRAPH_INSTANTIATE_PARAMS>(params));
  });
}

cudaError_t cudaGraphUpload(cudaGraphExec_t instance, cudaStream_t stream) {
  return run([&] { return cuGraphUpload(instance, stream); });
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t instance, cudaStream_t stream) {
  return run([&] { return cuGraphLaunch(instance, stream); });
}
}
