// Copies between devices. They have no second form for the per-thread default stream: of these functions, the
// toolkit's headers rename only the 3D ones.
#include "gpu_state/software/cudart/runtime.h"

using namespace cropdl::cudart;

namespace {

cudaError_t copy_peers(void* destination, int to, const void* source, int from, size_t count, CUstream stream,
                       bool waits) {
  return run([&] {
    CUcontext source_context = nullptr, destination_context = nullptr;
    cudaError_t error = primary_context(from, &source_context);
    if (error == cudaSuccess) error = primary_context(to, &destination_context);
    if (error != cudaSuccess) return error;
    return as_error(waits ? cuMemcpyPeer(as_device(destination), destination_context, as_device(source),
                                         source_context, count)
                          : cuMemcpyPeerAsync(as_device(destination), destination_context, as_device(source),
                                              source_context, count, stream));
  });
}

}  // namespace

extern "C" {

cudaError_t cudaMemcpyPeer(void* destination, int to, const void* source, int from, size_t count) {
  return copy_peers(destination, to, source, from, count, nullptr, true);
}

cudaError_t cudaMemcpyPeerAsync(void* destination, int to, const void* source, int from, size_t count,
                                cudaStream_t stream) {
  return copy_peers(destination, to, source, from, count, stream, false);
}
}
