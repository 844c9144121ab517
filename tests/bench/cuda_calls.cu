// Times calls of CUDA's runtime and driver.
#include <cuda.h>

#include "timed_calls.h"

namespace {

__global__ void empty() {}
__global__ void add(float* values, const float* others, int n, float by) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n) values[i] += by * others[i];
}

}  // namespace

int main() {
  constexpr int kMany = 200000, kSome = 20000, kFew = 1000, kWords = 1024;
  float *values, *others, host[kWords] = {};
  CHECK(cudaMalloc(&values, sizeof host));
  CHECK(cudaMalloc(&others, sizeof host));
  CHECK(cudaMemset(values, 0, sizeof host));
  CHECK(cudaMemset(others, 0, sizeof host));
  cudaStream_t stream;
  cudaEvent_t event;
  CHECK(cudaStreamCreate(&stream));
  CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));

  time_calls("cuCtxGetDevice", kMany, [] {
    CUdevice device;
    CHECK(cuCtxGetDevice(&device));
  });
  time_calls("cuEventQuery", kMany, [&] { CHECK(cuEventQuery(event)); });
  time_calls("cuStreamGetFlags", kMany, [&] {
    unsigned flags;
    CHECK(cuStreamGetFlags(stream, &flags));
  });
  time_calls("cudaGetDevice", kMany, [] {
    int device;
    CHECK(cudaGetDevice(&device));
  });
  time_calls("launch_of_nothing", kSome, [&] { empty<<<1, 32, 0, stream>>>(); });
  time_calls("launch", kSome, [&] { add<<<1, 64, 0, stream>>>(values, others, 64, 1); });
  time_calls("launch_awaited", kFew, [&] {
    add<<<1, 64, 0, stream>>>(values, others, 64, 1);
    CHECK(cudaStreamSynchronize(stream));
  });
  time_calls("cudaEventRecord", kSome, [&] { CHECK(cudaEventRecord(event, stream)); });
  time_calls("cudaMemcpy_4_KiB", kFew,
             [&] { CHECK(cudaMemcpy(host, values, sizeof host, cudaMemcpyDeviceToHost)); });
  time_calls("cudaMalloc_and_Free", kFew, [] {
    void* got;
    CHECK(cudaMalloc(&got, 100000));
    CHECK(cudaFree(got));
  });
  time_calls("cudaMallocAsync_and_Free", kFew, [&] {
    void* got;
    CHECK(cudaMallocAsync(&got, 100000, stream));
    CHECK(cudaFreeAsync(got, stream));
  });
  return 0;
}
