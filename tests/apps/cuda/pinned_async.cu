// A pipeline over pinned memory: three streams copy pieces in, process them and copy them out; registered
// host memory; kernels that access host memory.
#include "check.h"

__global__ void work(float* data, int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    data[i] = 2 * data[i] + 1;
}

int main() {
  const int pieces = 9, size = 700;
  float* host;
  CALL(cudaHostAlloc(&host, pieces * size * sizeof(float), cudaHostAllocDefault));
  std::vector<float> values = Random(33).floats(pieces * size), expected(pieces * size);
  std::copy(values.begin(), values.end(), host);
  for (size_t i = 0; i < values.size(); i++) expected[i] = std::fma(2.0f, values[i], 1.0f);
  cudaStream_t streams[3];
  float* memory[3];
  for (int s = 0; s < 3; s++) {
    CALL(cudaStreamCreate(&streams[s]));
    CALL(cudaMalloc(&memory[s], size * sizeof(float)));
  }
  for (int p = 0; p < pieces; p++) {
    cudaStream_t stream = streams[p % 3];
    CALL(cudaMemcpyAsync(memory[p % 3], host + p * size, size * sizeof(float), cudaMemcpyHostToDevice,
                         stream));
    work<<<2, 64, 0, stream>>>(memory[p % 3], size);
    CALL(cudaMemcpyAsync(host + p * size, memory[p % 3], size * sizeof(float), cudaMemcpyDeviceToHost,
                         stream));
  }
  LAUNCHED();
  CALL(cudaDeviceSynchronize());
  expect_same(std::vector<float>(host, host + pieces * size), expected, "pipeline");
  digest(expected);
  for (int s = 0; s < 3; s++) {
    CALL(cudaStreamDestroy(streams[s]));
    CALL(cudaFree(memory[s]));
  }
  work<<<2, 64>>>(host, size);  // pinned memory, at its host address
  CALL(cudaDeviceSynchronize());
  for (int i = 0; i < size; i++) EXPECT(host[i] == std::fma(2.0f, expected[i], 1.0f));

  std::vector<float> ordinary(3000, 3.0f);
  CALL(cudaHostRegister(ordinary.data(), ordinary.size() * sizeof(float), cudaHostRegisterMapped));
  float* mapped;
  CALL(cudaHostGetDevicePointer(&mapped, ordinary.data(), 0));
  work<<<2, 64>>>(mapped, 3000);
  CALL(cudaDeviceSynchronize());
  expect_same(ordinary, std::vector<float>(3000, 7.0f), "registered");
  cudaPointerAttributes attributes;
  CALL(cudaPointerGetAttributes(&attributes, ordinary.data() + 9));
  EXPECT(attributes.type == cudaMemoryTypeHost);
  CALL(cudaHostUnregister(ordinary.data()));
  CALL(cudaPointerGetAttributes(&attributes, ordinary.data() + 9));
  EXPECT(attributes.type == cudaMemoryTypeUnregistered);
  CALL(cudaFreeHost(host));
  return finish();
}
