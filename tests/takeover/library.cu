// A library that contains its own static runtime and uses it while it is loaded.
#include <cstdio>

__global__ void store(int* x) { *x = 7; }

struct AtLoad {
  cudaError_t error;
  AtLoad() {
    void* memory = nullptr;
    error = cudaMalloc(&memory, 16);
    if (error == cudaSuccess) error = cudaFree(memory);
  }
};
AtLoad at_load;

extern "C" int run() {
  int* on_device = nullptr;
  int x = 0;
  cudaError_t error = cudaMalloc(&on_device, sizeof x);
  store<<<1, 1>>>(on_device);
  if (error == cudaSuccess) error = cudaMemcpy(&x, on_device, sizeof x, cudaMemcpyDeviceToHost);
  std::printf("at load %d, run %d, x %d\n", static_cast<int>(at_load.error), static_cast<int>(error), x);
  return at_load.error != cudaSuccess || error != cudaSuccess || x != 7;
}
