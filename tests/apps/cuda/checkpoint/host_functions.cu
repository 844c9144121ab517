// nvcc: -std=c++17
// run: ways=static
// Host functions and callbacks between kernels: each runs once, in order, with its own thread's thread-local
// storage, and sees what the device wrote. Some are long, so that steps end and cuts happen while one runs.
#include <atomic>

#include "saved.h"

static thread_local unsigned calls_here;
static std::atomic<unsigned> called;
static unsigned* pinned;
static uint64_t order = 1;

__global__ void add(unsigned* values, int n, unsigned what) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) values[i] += what;
}

static void between(void* what) {
  calls_here++;
  const unsigned number = static_cast<unsigned>(reinterpret_cast<uintptr_t>(what));
  if (pinned[0] != number) steplog_fail("function %u finds %u", number, pinned[0]);
  order = order * 31 + number;
  steplog_spin(2000);
  pinned[1] = number;
  // They must not call CUDA functions.
  void* memory;
  EXPECT(cudaMalloc(&memory, 16) == cudaErrorNotPermitted);
  called++;
}

static void CUDART_CB behind(cudaStream_t, cudaError_t status, void* what) {
  if (status != cudaSuccess) steplog_fail("callback: %s", cudaGetErrorName(status));
  between(what);
}

int main(int argc, char** argv) {
  steplog_open(argc, argv, -1);
  cudaStream_t stream;
  CALL(cudaStreamCreate(&stream));
  CALL(cudaMallocHost(&pinned, 64));
  pinned[0] = pinned[1] = 0;
  {
    DeviceNonce nonce;
    Buffer<unsigned> values(std::vector<unsigned>(1000));
    unsigned number = 0;
    while (steplog_done < steplog_steps) {
      for (int i = 0; i < 3; i++) {
        number++;
        add<<<8, 128, 0, stream>>>(values, 1000, 1);
        CALL(cudaMemcpyAsync(pinned, values, sizeof(unsigned), cudaMemcpyDeviceToHost, stream));
        void* what = reinterpret_cast<void*>(static_cast<uintptr_t>(number));
        if (i == 1)
          CALL(cudaStreamAddCallback(stream, behind, what, 0));
        else
          CALL(cudaLaunchHostFunc(stream, between, what));
        CALL(cudaMemcpyAsync(values + 1, pinned + 1, sizeof(unsigned), cudaMemcpyHostToDevice, stream));
      }
      LAUNCHED();
      if (steplog_done % 3 == 2) {  // at other steps the step ends before they have run
        CALL(cudaStreamSynchronize(stream));
        EXPECT(called == number);
        std::vector<unsigned> there = values.host();
        EXPECT(there[0] == number && there[1] == number);
        mix(there);
      }
      steplog_step();
    }
    CALL(cudaStreamSynchronize(stream));
    EXPECT(called == number && calls_here == 0);
    steplog_mix(order);
    mix(values.host());
    nonce.back();
  }
  CALL(cudaFreeHost(pinned));
  CALL(cudaStreamDestroy(stream));
  steplog_ok();
  return 0;
}
