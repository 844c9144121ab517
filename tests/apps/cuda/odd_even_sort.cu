// Odd-even transposition sort of one block's numbers in shared memory, floats with signs and zeros.
#include "check.h"

#include <algorithm>

__global__ void sort(float* values, int n) {
  extern __shared__ float v[];
  for (int i = threadIdx.x; i < n; i += blockDim.x) v[i] = values[i];
  __syncthreads();
  for (int round = 0; round < n; round++) {
    for (int i = 2 * threadIdx.x + (round & 1); i + 1 < n; i += 2 * blockDim.x)
      if (v[i] > v[i + 1]) {
        float t = v[i];
        v[i] = v[i + 1];
        v[i + 1] = t;
      }
    __syncthreads();
  }
  for (int i = threadIdx.x; i < n; i += blockDim.x) values[i] = v[i];
}

int main() {
  const int n = 501;
  std::vector<float> values = Random(11).floats(n, -100, 100);
  Buffer<float> dv(values);
  sort<<<1, 128, n * sizeof(float)>>>(dv, n);
  LAUNCHED();
  std::sort(values.begin(), values.end());
  expect_same(dv.host(), values);
  digest(dv.host());
  return finish();
}
