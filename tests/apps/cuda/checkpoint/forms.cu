// nvcc: -std=c++17
// run: also=shared,per-thread
// The runtime in each form in which a program can have it: memory, pinned and registered memory, a stream, an
// event, kernels by <<<>>> and by cudaLaunchKernel with a queried function.
#include "saved.h"

__global__ void collatz(unsigned* values, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) values[i] = values[i] % 2 ? 3 * values[i] + 1 : values[i] / 2;
}

template <int kAdd>
__global__ void add(unsigned* values, int n) {
  extern __shared__ unsigned own[];
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  own[threadIdx.x] = i < n ? values[i] : 0;
  __syncthreads();
  if (i < n) values[i] = own[threadIdx.x] + kAdd;
}

int main(int argc, char** argv) {
  steplog_open(argc, argv, -1);
  DeviceNonce nonce;
  const int n = 3000;
  unsigned *pinned, *seen, *registered = static_cast<unsigned*>(aligned_alloc(4096, 16384));
  CALL(cudaMallocHost(&pinned, n * sizeof *pinned));
  CALL(cudaHostRegister(registered, 16384, cudaHostRegisterMapped));
  CALL(cudaHostGetDevicePointer(reinterpret_cast<void**>(&seen), registered, 0));
  for (int i = 0; i < n; i++) pinned[i] = registered[i] = static_cast<unsigned>(i);
  cudaStream_t stream;
  CALL(cudaStreamCreate(&stream));
  cudaEvent_t event;
  CALL(cudaEventCreate(&event));
  CALL(cudaFuncSetAttribute(add<5>, cudaFuncAttributePreferredSharedMemoryCarveout, 50));
  {
    Buffer<unsigned> values(n);
    CALL(cudaMemcpyAsync(values, pinned, n * sizeof *pinned, cudaMemcpyHostToDevice, stream));
    while (steplog_done < steplog_steps) {
      collatz<<<(n + 127) / 128, 128, 0, stream>>>(values, n);
      add<5><<<(n + 63) / 64, 64, 64 * sizeof(unsigned), stream>>>(values, n);
      LAUNCHED();
      int count = n;
      unsigned* at = seen;
      void* arguments[] = {&at, &count};
      CALL(cudaLaunchKernel(reinterpret_cast<const void*>(&collatz), dim3((n + 127) / 128), dim3(128),
                            arguments, 0, stream));
      CALL(cudaEventRecord(event, stream));
      CALL(cudaMemcpyAsync(pinned, values, n * sizeof *pinned, cudaMemcpyDeviceToHost, stream));
      CALL(cudaStreamSynchronize(stream));
      EXPECT(cudaEventQuery(event) == cudaSuccess);
      EXPECT(cudaStreamQuery(nullptr) == cudaSuccess);
      cudaPointerAttributes of;
      CALL(cudaPointerGetAttributes(&of, pinned));
      EXPECT(of.type == cudaMemoryTypeHost);
      steplog_mix_bytes(pinned, n * sizeof *pinned);
      steplog_mix_bytes(registered, n * sizeof *registered);
      steplog_step();
    }
    mix(values.host());
  }
  CALL(cudaEventDestroy(event));
  CALL(cudaStreamDestroy(stream));
  CALL(cudaHostUnregister(registered));
  CALL(cudaFreeHost(pinned));
  nonce.back();
  steplog_ok();
  return 0;
}
