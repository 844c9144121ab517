// nvcc: -std=c++17
// run: ways=static
// Stream-ordered memory: blocks that live for several steps, from the default pool and from the program's
// own, with attributes; one is freed while its kernel still runs. At the end: what other streams may reuse,
// and what captures allow.
#include "saved.h"

__global__ void fill(unsigned* values, int n, unsigned with) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) values[i] = with + static_cast<unsigned>(i);
}

__global__ void sum(const unsigned* values, int n, unsigned long long* to) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) atomicAdd(to, static_cast<unsigned long long>(values[i]));
}

int main(int argc, char** argv) {
  steplog_open(argc, argv, -1);
  cudaStream_t stream;
  CALL(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  cudaMemPoolProps properties = {};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location = {cudaMemLocationTypeDevice, 0};
  cudaMemPool_t own, common;
  CALL(cudaMemPoolCreate(&own, &properties));
  CALL(cudaDeviceGetDefaultMemPool(&common, 0));
  uint64_t threshold = 8 << 20;
  CALL(cudaMemPoolSetAttribute(own, cudaMemPoolAttrReleaseThreshold, &threshold));
  {
    DeviceNonce nonce;
    Buffer<unsigned long long> total(1);
    constexpr int kLive = 5;
    unsigned* live[kLive] = {};
    int size[kLive] = {};
    unsigned with[kLive] = {};
    while (steplog_done < steplog_steps) {
      const int at = static_cast<int>(steplog_done % kLive);
      uint64_t got = 0;
      CALL(cudaMemPoolGetAttribute(own, cudaMemPoolAttrReleaseThreshold, &got));
      EXPECT(got == threshold);
      CALL(cudaMemsetAsync(total, 0, sizeof(unsigned long long), stream));
      unsigned long long expected = 0;
      for (int i = 0; i < kLive; i++) {
        if (!live[i]) continue;
        sum<<<(size[i] + 127) / 128, 128, 0, stream>>>(live[i], size[i], total);
        for (int k = 0; k < size[i]; k++) expected += with[i] + static_cast<unsigned>(k);
      }
      if (live[at]) CALL(cudaFreeAsync(live[at], stream));
      size[at] = 500 + static_cast<int>(steplog_done * 37 % 3000);
      with[at] = static_cast<unsigned>(steplog_done) * 1000;
      const size_t bytes = static_cast<size_t>(size[at]) * sizeof(unsigned);
      if (steplog_done % 2)
        CALL(cudaMallocAsync(reinterpret_cast<void**>(&live[at]), bytes, stream));
      else
        CALL(cudaMallocFromPoolAsync(reinterpret_cast<void**>(&live[at]), bytes, own, stream));
      fill<<<(size[at] + 127) / 128, 128, 0, stream>>>(live[at], size[at], with[at]);
      LAUNCHED();
      unsigned* gone;
      CALL(cudaMallocAsync(reinterpret_cast<void**>(&gone), 1 << 20, stream));
      fill<<<100, 128, 0, stream>>>(gone, 12800, 1);
      CALL(cudaFreeAsync(gone, stream));
      unsigned long long there;
      CALL(cudaMemcpyAsync(&there, total, sizeof there, cudaMemcpyDeviceToHost, stream));
      CALL(cudaStreamSynchronize(stream));
      EXPECT(there == expected);
      steplog_mix(there);
      steplog_step();
    }
    for (unsigned* one : live)
      if (one) CALL(cudaFreeAsync(one, stream));
    CALL(cudaStreamSynchronize(stream));
    nonce.back();
  }
  // Freed memory can be reused by any stream; what a capture must not use is refused.
  size_t there, all;
  void *block, *large;
  CALL(cudaMemGetInfo(&there, &all));
  CALL(cudaMallocAsync(&large, there / 10 * 6, stream));
  CALL(cudaFreeAsync(large, stream));
  CALL(cudaStreamSynchronize(stream));
  CALL(cudaMalloc(&large, there / 10 * 6));
  CALL(cudaFree(large));
  CALL(cudaMalloc(&block, 100));
  cudaGraph_t graph;
  cudaGraphExec_t executable;
  CALL(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  EXPECT(cudaFree(block) == cudaErrorStreamCaptureUnsupported);
  EXPECT(cudaStreamEndCapture(stream, &graph) == cudaErrorStreamCaptureInvalidated);
  cudaGetLastError();
  CALL(cudaFree(block));
  CALL(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  CALL(cudaMallocAsync(&block, 4096, stream));
  CALL(cudaStreamEndCapture(stream, &graph));
  CALL(cudaGraphInstantiate(&executable, graph, 0));
  CALL(cudaGraphLaunch(executable, stream));
  CALL(cudaStreamSynchronize(stream));
  CALL(cudaFree(block));
  CALL(cudaGraphExecDestroy(executable));
  CALL(cudaGraphDestroy(graph));
  CALL(cudaMemPoolDestroy(own));
  CALL(cudaStreamDestroy(stream));
  steplog_ok();
  return 0;
}
