// Queries that programs make at their start: properties, attributes, memory, occupancy, a kernel's
// attributes, limits, versions.
#include "check.h"

#include <string>

__global__ void __launch_bounds__(256) kernel(float* data) {
  __shared__ float room[512];
  room[threadIdx.x] = data[threadIdx.x];
  __syncthreads();
  data[threadIdx.x] = room[255 - threadIdx.x];
}
__constant__ int constants[10];
__global__ void other(int* out) { *out = constants[*out]; }

int main() {
  int count, value, version;
  CALL(cudaGetDeviceCount(&count));
  EXPECT(count >= 1);
  CALL(cudaRuntimeGetVersion(&version));
  EXPECT(version / 1000 == 13);
  CALL(cudaDriverGetVersion(&version));
  EXPECT(version / 1000 >= 13);
  cudaDeviceProp properties;
  CALL(cudaGetDeviceProperties(&properties, 0));
  EXPECT(std::string(properties.name).size() > 3);
  EXPECT(properties.warpSize == 32 && properties.maxThreadsPerBlock == 1024 &&
         properties.maxThreadsDim[0] == 1024 && properties.maxThreadsDim[2] == 64);
  EXPECT(properties.maxGridSize[0] == 2147483647 && properties.maxGridSize[1] == 65535);
  EXPECT(properties.sharedMemPerBlock == 49152 && properties.sharedMemPerBlockOptin >= 49152 &&
         properties.regsPerBlock == 65536);
  EXPECT(properties.unifiedAddressing == 1 && properties.managedMemory == 1 &&
         properties.totalConstMem == 65536);
  EXPECT(properties.multiProcessorCount >= 1 && properties.totalGlobalMem > 0 && properties.major >= 7);
  CALL(cudaDeviceGetAttribute(&value, cudaDevAttrMaxThreadsPerMultiProcessor, 0));
  EXPECT(value == properties.maxThreadsPerMultiProcessor);
  size_t before, after, total, limit;
  CALL(cudaMemGetInfo(&before, &total));
  EXPECT(total == properties.totalGlobalMem && before <= total);
  void* memory;
  CALL(cudaMalloc(&memory, 64 << 20));
  CALL(cudaMemGetInfo(&after, &total));
  EXPECT(after <= before - (64 << 20));
  EXPECT(reinterpret_cast<uintptr_t>(memory) % 256 == 0);
  CALL(cudaFree(memory));
  CALL(cudaMemGetInfo(&after, &total));
  EXPECT(after == before);

  cudaFuncAttributes attributes;
  CALL(cudaFuncGetAttributes(&attributes, kernel));
  EXPECT(attributes.sharedSizeBytes == 2048 && attributes.maxThreadsPerBlock == 256 &&
         attributes.numRegs > 0);
  CALL(cudaFuncGetAttributes(&attributes, other));
  EXPECT(attributes.sharedSizeBytes == 0 && attributes.maxThreadsPerBlock == 1024);
  int blocks, grid, block;
  CALL(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, 256, 0));
  EXPECT(blocks >= 1 && blocks * 256 <= properties.maxThreadsPerMultiProcessor);
  CALL(cudaOccupancyMaxPotentialBlockSize(&grid, &block, kernel, 0, 0));
  EXPECT(block % 32 == 0 && block <= 256 && grid >= properties.multiProcessorCount);
  CALL(cudaDeviceGetLimit(&limit, cudaLimitStackSize));
  EXPECT(limit >= 1024);
  CALL(cudaDeviceSetLimit(cudaLimitPrintfFifoSize, 2 << 20));
  CALL(cudaDeviceGetLimit(&limit, cudaLimitPrintfFifoSize));
  EXPECT(limit >= 2 << 20);
  int least, greatest, priority;
  CALL(cudaDeviceGetStreamPriorityRange(&least, &greatest));
  EXPECT(least >= greatest);
  cudaStream_t stream;
  CALL(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, greatest));
  CALL(cudaStreamGetPriority(stream, &priority));
  EXPECT(priority == greatest);
  unsigned flags;
  CALL(cudaStreamGetFlags(stream, &flags));
  EXPECT(flags == cudaStreamNonBlocking);
  CALL(cudaStreamDestroy(stream));
  char text[20];
  CALL(cudaDeviceGetPCIBusId(text, sizeof text, 0));
  CALL(cudaDeviceGetByPCIBusId(&value, text));
  EXPECT(value == 0);
  return finish();
}
