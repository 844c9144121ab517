// run: devices=3 also=shared
// Work shared by three devices, each with its own stream, variables and context; events across devices.
#include "check.h"

__device__ int offset = 5;

__global__ void work(int* data, int n, int first) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) data[i] = first + i + offset;
}

int main() {
  const int n = 300;
  int count;
  CALL(cudaGetDeviceCount(&count));
  EXPECT(count == 3);
  int* memory[3];
  cudaStream_t streams[3];
  cudaEvent_t events[3];
  std::vector<int> all(3 * n), expected(3 * n);
  for (int d = 0; d < count; d++) {
    CALL(cudaSetDevice(d));
    int mine = 100 * d, current;
    CALL(cudaGetDevice(&current));
    EXPECT(current == d);
    CALL(cudaMemcpyToSymbol(offset, &mine, sizeof mine));  // each device has its own
    CALL(cudaMalloc(&memory[d], n * sizeof(int)));
    CALL(cudaDeviceSynchronize());  // with per-thread default streams, the stream below does not wait for the
                                    // copy
    CALL(cudaStreamCreate(&streams[d]));
    CALL(cudaEventCreateWithFlags(&events[d], cudaEventDisableTiming));
  }
  for (int d = 0; d < count; d++) {
    CALL(cudaSetDevice(d));
    if (d) CALL(cudaStreamWaitEvent(streams[d], events[d - 1], 0));
    work<<<3, 128, 0, streams[d]>>>(memory[d], n, d * n);
    CALL(cudaEventRecord(events[d], streams[d]));
    for (int i = 0; i < n; i++) expected[d * n + i] = d * n + i + 100 * d;
  }
  LAUNCHED();
  work<<<1, 1, 0, streams[0]>>>(memory[0], n, 0);  // a stream of a device that is not current
  FAILS(cudaGetLastError(), cudaErrorInvalidResourceHandle);
  for (int d = 0; d < count; d++) {
    CALL(cudaSetDevice(d));
    CALL(cudaStreamSynchronize(streams[d]));
    CALL(cudaMemcpy(&all[d * n], memory[d], n * sizeof(int), cudaMemcpyDeviceToHost));
    CALL(cudaStreamDestroy(streams[d]));
    CALL(cudaEventDestroy(events[d]));
    CALL(cudaFree(memory[d]));
  }
  expect_same(all, expected);
  digest(all);
  return finish();
}
