// Errors of calls: impossible launches, bad arguments, bad handles. Each error is returned once and has no
// lasting effect.
// run: also=shared
#include "check.h"

__global__ void set(int* to, int value) { *to = value; }
__global__ void __launch_bounds__(64) bounded(int* to) { *to = threadIdx.x; }

static void launch_fails(dim3 grid, dim3 block, size_t shared, cudaError_t expected, int line) {
  set<<<grid, block, shared>>>(nullptr, 1);
  check_error(cudaGetLastError(), expected, "launch", line);
  check_error(cudaGetLastError(), cudaSuccess, "afterwards", line);
}

int main() {
  Buffer<int> memory(4);
  memory.zero();
  launch_fails(1, 1025, 0, cudaErrorInvalidConfiguration, __LINE__);
  launch_fails(1, dim3(32, 33), 0, cudaErrorInvalidConfiguration, __LINE__);
  launch_fails(1, dim3(1, 1, 65), 0, cudaErrorInvalidConfiguration, __LINE__);
  launch_fails(0, 1, 0, cudaErrorInvalidConfiguration, __LINE__);
  launch_fails(1, 0, 0, cudaErrorInvalidConfiguration, __LINE__);
  launch_fails(dim3(1, 65536), 1, 0, cudaErrorInvalidConfiguration, __LINE__);
  launch_fails(1, 1, 1 << 20, cudaErrorInvalidValue, __LINE__);
  bounded<<<1, 65>>>(memory);
  EXPECT(cudaGetLastError() != cudaSuccess);  // out of resources, or invalid value
  void* pointer = nullptr;
  FAILS(cudaMalloc(&pointer, size_t{1} << 60), cudaErrorMemoryAllocation);
  FAILS(cudaGetLastError(), cudaErrorMemoryAllocation);
  CALL(cudaGetLastError());
  FAILS(cudaMalloc(nullptr, 4), cudaErrorInvalidValue);
  CALL(cudaMalloc(&pointer, 0));
  EXPECT(pointer == nullptr);
  CALL(cudaFree(nullptr));
  FAILS(cudaFree(memory + 1), cudaErrorInvalidValue);
  FAILS(cudaMemcpy(memory, memory, 4, static_cast<cudaMemcpyKind>(9)), cudaErrorInvalidMemcpyDirection);
  int value = 0;
  FAILS(cudaMemcpy(memory, &value, 1000000, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
  FAILS(cudaMemset(&value, 0, 4), cudaErrorInvalidValue);
  FAILS(cudaSetDevice(1000), cudaErrorInvalidDevice);
  FAILS(cudaFuncSetAttribute(set, cudaFuncAttributeMaxDynamicSharedMemorySize, 1 << 20),
        cudaErrorInvalidValue);
  cudaGetLastError();
  EXPECT(std::strcmp(cudaGetErrorName(cudaErrorIllegalAddress), "cudaErrorIllegalAddress") == 0);
  EXPECT(std::strcmp(cudaGetErrorString(cudaErrorIllegalAddress),
                     "an illegal memory access was encountered") == 0);
  EXPECT(std::strcmp(cudaGetErrorString(cudaSuccess), "no error") == 0);
  set<<<1, 1>>>(memory, 42);  // the device still works
  LAUNCHED();
  expect_same(memory.host(), std::vector<int>{42, 0, 0, 0});
  return finish();
}
