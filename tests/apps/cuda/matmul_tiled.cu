// Matrix product by tiles in shared memory; no size is a multiple of the tile.
#include "check.h"

constexpr int kTile = 16;

__global__ void product(const float* a, const float* b, float* c, int m, int n, int k) {
  __shared__ float at[kTile][kTile], bt[kTile][kTile];
  int row = blockIdx.y * kTile + threadIdx.y, column = blockIdx.x * kTile + threadIdx.x;
  float sum = 0;
  for (int first = 0; first < k; first += kTile) {
    at[threadIdx.y][threadIdx.x] =
        row < m && first + threadIdx.x < k ? a[row * k + first + threadIdx.x] : 0.0f;
    bt[threadIdx.y][threadIdx.x] =
        column < n && first + threadIdx.y < k ? b[(first + threadIdx.y) * n + column] : 0.0f;
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kTile; i++) sum += at[threadIdx.y][i] * bt[i][threadIdx.x];
    __syncthreads();
  }
  if (row < m && column < n) c[row * n + column] = sum;
}

int main() {
  const int m = 61, n = 75, k = 50;
  Random random(7);
  std::vector<float> a = random.floats(m * k), b = random.floats(k * n);
  std::vector<float> expected(m * n);
  for (int i = 0; i < m; i++)
    for (int j = 0; j < n; j++)
      for (int l = 0; l < k; l++)
        expected[i * n + j] = std::fma(a[i * k + l], b[l * n + j], expected[i * n + j]);
  Buffer<float> da(a), db(b), dc(m * n);
  product<<<dim3((n + kTile - 1) / kTile, (m + kTile - 1) / kTile), dim3(kTile, kTile)>>>(da, db, dc, m, n,
                                                                                          k);
  LAUNCHED();
  expect_same(dc.host(), expected);  // the same order of fused multiply-adds
  digest(dc.host());
  return finish();
}
