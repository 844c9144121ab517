// The classic reduction tree in shared memory, then a second launch over the blocks' sums.
#include "check.h"

template <class T>
__global__ void reduce(const T* in, T* out, int n) {
  extern __shared__ unsigned char raw[];
  T* part = reinterpret_cast<T*>(raw);
  int i = blockIdx.x * blockDim.x * 2 + threadIdx.x;
  T sum = i < n ? in[i] : 0;
  if (i + blockDim.x < n) sum += in[i + blockDim.x];
  part[threadIdx.x] = sum;
  __syncthreads();
  for (unsigned half = blockDim.x / 2; half; half >>= 1) {
    if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
    __syncthreads();
  }
  if (threadIdx.x == 0) out[blockIdx.x] = part[0];
}

int main() {
  const int n = 30000, blocks = (n + 511) / 512;
  Random random(4);
  std::vector<uint32_t> values = random.integers(n, 1u << 20);
  std::vector<long long> wide(values.begin(), values.end());
  long long expected = 0;
  for (long long value : wide) expected += value;
  Buffer<long long> in(wide), middle(blocks), out(1);
  reduce<<<blocks, 256, 256 * sizeof(long long)>>>(in.data, middle.data, n);
  reduce<<<1, 64, 64 * sizeof(long long)>>>(middle.data, out.data, blocks);
  LAUNCHED();
  expect_same(out.host(), std::vector<long long>{expected});
  digest(out.host());
  return finish();
}
