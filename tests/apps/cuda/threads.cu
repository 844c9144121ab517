// nvcc: -Xcompiler -pthread
// Host threads that allocate, launch, record and wait concurrently, each in its own stream. Each thread has
// its own current device.
// run: also=per-thread
#include <atomic>
#include <thread>

#include "check.h"

__global__ void add(int* data, int n, int what) {
  for (int i = threadIdx.x; i < n; i += blockDim.x) data[i] += what;
}

int main() {
  const int threads = 4, rounds = 12, n = 300;
  std::vector<std::thread> all;
  std::vector<std::vector<int>> results(threads);
  for (int t = 0; t < threads; t++)
    all.emplace_back([&, t] {
      cudaStream_t stream;
      CALL(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
      cudaEvent_t event;
      CALL(cudaEventCreate(&event));
      for (int r = 0; r < rounds; r++) {
        int* data;
        std::vector<int> got(n);
        CALL(cudaMalloc(&data, n * sizeof(int)));
        CALL(cudaMemsetAsync(data, 0, n * sizeof(int), stream));
        for (int k = 0; k < 3; k++) add<<<1, 64, 0, stream>>>(data, n, t + r + k);
        LAUNCHED();
        CALL(cudaEventRecord(event, stream));
        CALL(cudaEventSynchronize(event));
        CALL(cudaMemcpyAsync(got.data(), data, n * sizeof(int), cudaMemcpyDeviceToHost, stream));
        CALL(cudaStreamSynchronize(stream));
        CALL(cudaFree(data));
        results[t] = got;
        for (int value : got) EXPECT(value == 3 * (t + r) + 3);
        FAILS(cudaSetDevice(77), cudaErrorInvalidDevice);  // the error belongs to this thread
        FAILS(cudaGetLastError(), cudaErrorInvalidDevice);
        CALL(cudaGetLastError());
      }
      CALL(cudaEventDestroy(event));
      CALL(cudaStreamDestroy(stream));
    });
  for (std::thread& thread : all) thread.join();
  for (auto& result : results) digest(result);
  return finish();
}
