// Bitonic sort: one launch per step across blocks; steps within a block use shared memory.
#include "check.h"

#include <algorithm>

constexpr int kBlock = 256;

__device__ void order(uint32_t& a, uint32_t& b, bool up) {
  if ((a > b) == up) {
    uint32_t t = a;
    a = b;
    b = t;
  }
}

__global__ void far_step(uint32_t* v, int j, int k) {
  int i = blockIdx.x * blockDim.x + threadIdx.x, other = i ^ j;
  if (other > i) order(v[i], v[other], (i & k) == 0);
}

__global__ void near_steps(uint32_t* v, int k) {
  __shared__ uint32_t part[kBlock];
  int i = blockIdx.x * kBlock + threadIdx.x;
  part[threadIdx.x] = v[i];
  __syncthreads();
  for (int j = min(k / 2, kBlock / 2); j > 0; j >>= 1) {
    int other = threadIdx.x ^ j;
    if (other > threadIdx.x) order(part[threadIdx.x], part[other], (i & k) == 0);
    __syncthreads();
  }
  v[i] = part[threadIdx.x];
}

int main() {
  const int n = 4096;
  std::vector<uint32_t> values = Random(9).integers(n, 100000);
  Buffer<uint32_t> dv(values);
  for (int k = 2; k <= n; k <<= 1) {
    for (int j = k / 2; j >= kBlock; j >>= 1) far_step<<<n / kBlock, kBlock>>>(dv, j, k);
    near_steps<<<n / kBlock, kBlock>>>(dv, k);
  }
  LAUNCHED();
  std::sort(values.begin(), values.end());
  expect_same(dv.host(), values);
  digest(dv.host());
  return finish();
}
