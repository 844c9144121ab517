// nvcc: -rdc=true -lcudadevrt -arch=sm_75
// run: ways=static
// A program with a kernel that launches kernels. A device without that feature refuses this kernel; the rest
// of the program works.
#include "check.h"

__global__ void child(int* to) { atomicAdd(to, 1); }
__global__ void parent(int* to) { child<<<1, 32>>>(to); }
__global__ void plain(int* to) { atomicAdd(to, 5); }

int main() {
  Buffer<int> memory(1);
  CALL(cudaMemset(memory, 0, sizeof(int)));
  plain<<<1, 1>>>(memory);
  CALL(cudaGetLastError());
  CALL(cudaDeviceSynchronize());
  parent<<<1, 1>>>(memory);
  const cudaError_t launched = cudaGetLastError();
  EXPECT(launched == cudaSuccess || launched == cudaErrorNotSupported);
  CALL(cudaDeviceSynchronize());
  int value;
  CALL(cudaMemcpy(&value, memory, sizeof value, cudaMemcpyDeviceToHost));
  EXPECT(value == (launched == cudaSuccess ? 37 : 5));
  return finish();
}
