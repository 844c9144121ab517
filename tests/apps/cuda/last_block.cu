// A sum in a single launch: the last block to finish, found by a counter behind a fence, adds the partial
// sums. Also a block that waits for words from another one (libcu++ release and acquire).
#include <cuda/atomic>

#include "check.h"

__device__ unsigned ended;

__global__ void sum(const int* in, int n, volatile int* parts, int* result) {
  __shared__ int part;
  __shared__ bool last;
  if (threadIdx.x == 0) part = 0;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    atomicAdd(&part, in[i]);
  __syncthreads();
  if (threadIdx.x == 0) {
    parts[blockIdx.x] = part;
    __threadfence();
    last = atomicInc(&ended, gridDim.x - 1) == gridDim.x - 1;
  }
  __syncthreads();
  if (last && threadIdx.x == 0) {
    int total = 0;
    for (unsigned b = 0; b < gridDim.x; b++) total += parts[b];
    *result = total;
  }
}

__global__ void pass_on(int* data, int* flags, int rounds) {  // two blocks pass a number back and forth
  cuda::atomic_ref<int, cuda::thread_scope_device> mine(flags[blockIdx.x]), other(flags[1 - blockIdx.x]);
  for (int r = 0; r < rounds; r++) {
    if (blockIdx.x == 1 || r > 0)
      while (other.load(cuda::memory_order_acquire) < r + int(blockIdx.x)) {
      }
    *data = *data * 3 + 1 + blockIdx.x;
    mine.store(r + 1, cuda::memory_order_release);
  }
}

int main() {
  const int n = 20000, blocks = 13;
  std::vector<uint32_t> numbers = Random(71).integers(n, 1000);
  std::vector<int> in(numbers.begin(), numbers.end());
  int expected = 0, passed = 1;
  for (int value : in) expected += value;
  Buffer<int> din(in), parts(blocks), result(1), data(std::vector<int>{1}), flags(std::vector<int>(2));
  for (int round = 0; round < 2; round++) {
    result.zero();
    sum<<<blocks, 128>>>(din, n, parts.data, result);
    LAUNCHED();
    EXPECT(result.host()[0] == expected);
  }
  pass_on<<<2, 1>>>(data, flags, 6);
  LAUNCHED();
  for (int r = 0; r < 6; r++) passed = (passed * 3 + 1) * 3 + 2;
  EXPECT(data.host()[0] == passed);
  digest(expected);
  digest(passed);
  return finish();
}
