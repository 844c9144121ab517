// A graph captured from two streams that fork and join: nothing runs during the capture; it is launched many
// times; calls that a capture forbids fail.
// run: also=per-thread
#include "check.h"

__global__ void add(int* data, int n, int what) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) data[i] += what;
}

__global__ void sum(const int* a, const int* b, int* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] += a[i] * b[i];
}

int main() {
  const int n = 500, blocks = (n + 127) / 128;
  cudaStream_t one, two;
  CALL(cudaStreamCreateWithFlags(&one, cudaStreamNonBlocking));
  CALL(cudaStreamCreateWithFlags(&two, cudaStreamNonBlocking));
  cudaEvent_t fork, join;
  CALL(cudaEventCreateWithFlags(&fork, cudaEventDisableTiming));
  CALL(cudaEventCreateWithFlags(&join, cudaEventDisableTiming));
  Buffer<int> a(n), b(n), out(n);
  a.zero();
  b.zero();
  out.zero();
  CALL(cudaDeviceSynchronize());
  cudaGraph_t graph;
  CALL(cudaStreamBeginCapture(one, cudaStreamCaptureModeGlobal));
  add<<<blocks, 128, 0, one>>>(a, n, 1);
  CALL(cudaEventRecord(fork, one));
  CALL(cudaStreamWaitEvent(two, fork, 0));
  add<<<blocks, 128, 0, two>>>(b, n, 2);
  add<<<blocks, 128, 0, two>>>(b, n, 1);
  add<<<blocks, 128, 0, one>>>(a, n, 4);
  CALL(cudaEventRecord(join, two));
  CALL(cudaStreamWaitEvent(one, join, 0));
  sum<<<blocks, 128, 0, one>>>(a, b, out, n);
  CALL(cudaMemsetAsync(b, 0, n * sizeof(int), one));
  cudaStreamCaptureStatus status;
  CALL(cudaStreamIsCapturing(two, &status));
  EXPECT(status == cudaStreamCaptureStatusActive);
  CALL(cudaStreamEndCapture(one, &graph));
  LAUNCHED();
  expect_same(out.host(), std::vector<int>(n), "before any launch");
  size_t nodes = 0;
  CALL(cudaGraphGetNodes(graph, nullptr, &nodes));
  EXPECT(nodes == 6);
  cudaGraphExec_t exec;
  CALL(cudaGraphInstantiate(&exec, graph, 0));
  int expected = 0, value = 0;
  for (int i = 0; i < 5; i++) {
    CALL(cudaGraphLaunch(exec, i % 2 ? one : two));
    CALL(cudaStreamSynchronize(i % 2 ? one : two));
    value += 5;
    expected += value * 3;
  }
  expect_same(out.host(), std::vector<int>(n, expected), "after five launches");
  digest(out.host());
  CALL(cudaGraphExecDestroy(exec));
  CALL(cudaGraphDestroy(graph));

  // Synchronising with a capturing stream invalidates the capture.
  CALL(cudaStreamBeginCapture(one, cudaStreamCaptureModeRelaxed));
  add<<<blocks, 128, 0, one>>>(a, n, 1);
  FAILS(cudaStreamSynchronize(one), cudaErrorStreamCaptureUnsupported);
  FAILS(cudaStreamEndCapture(one, &graph), cudaErrorStreamCaptureInvalidated);
  // A forked stream that is not joined.
  CALL(cudaStreamBeginCapture(one, cudaStreamCaptureModeRelaxed));
  CALL(cudaEventRecord(fork, one));
  CALL(cudaStreamWaitEvent(two, fork, 0));
  add<<<blocks, 128, 0, two>>>(b, n, 2);
  FAILS(cudaStreamEndCapture(one, &graph), cudaErrorStreamCaptureUnjoined);
  cudaGetLastError();
  CALL(cudaEventDestroy(fork));
  CALL(cudaEventDestroy(join));
  CALL(cudaStreamDestroy(one));
  CALL(cudaStreamDestroy(two));
  return finish();
}
