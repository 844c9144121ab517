// Sums by warp shuffles (down and exclusive-or), one warp's worth of shared memory between warps.
#include "check.h"

__device__ double warp_sum(double value) {
  for (int offset = 16; offset; offset >>= 1) value += __shfl_down_sync(~0u, value, offset);
  return value;
}

__global__ void sums(const float* values, int n, double* sum, int* largest) {
  __shared__ double parts[32];
  double mine = 0;
  int top = -2147483647 - 1;
  for (int i = threadIdx.x; i < n; i += blockDim.x) {
    float value = values[blockIdx.x * n + i];
    mine += value;
    top = max(top, static_cast<int>(value * 1000000));
  }
  for (int mask = 1; mask < 32; mask <<= 1) top = max(top, __shfl_xor_sync(~0u, top, mask));
  mine = warp_sum(mine);
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = mine;
  __syncthreads();
  if (threadIdx.x < 32) {
    mine = warp_sum(threadIdx.x < blockDim.x / 32 ? parts[threadIdx.x] : 0.0);
    if (threadIdx.x == 0) sum[blockIdx.x] = mine;
  }
  if (threadIdx.x % 32 == 0) atomicMax(&largest[blockIdx.x], top);
}

int main() {
  const int blocks = 5, n = 3001;
  Random random(3);
  std::vector<float> values = random.floats(blocks * n);
  std::vector<double> expected(blocks);
  std::vector<int> largest(blocks, -2147483647 - 1);
  for (int b = 0; b < blocks; b++)
    for (int i = 0; i < n; i++) {
      expected[b] += values[b * n + i];
      largest[b] = std::max(largest[b], static_cast<int>(values[b * n + i] * 1000000));
    }
  Buffer<float> dv(values);
  Buffer<double> ds(blocks);
  Buffer<int> dl(std::vector<int>(blocks, -2147483647 - 1));
  sums<<<blocks, 192>>>(dv, n, ds, dl);
  LAUNCHED();
  expect_near(ds.host(), expected, 1e-12, 1e-12);
  expect_same(dl.host(), largest, "largest");
  digest(ds.host());
  digest(dl.host());
  return finish();
}
