// Two-dimensional convolution: filter in constant memory, clamped borders, a halo in shared memory.
#include "check.h"

constexpr int kRadius = 3, kSide = 2 * kRadius + 1, kTile = 16;
__constant__ float filter[kSide * kSide];

__global__ void convolve(const float* in, float* out, int width, int height) {
  __shared__ float tile[kTile + 2 * kRadius][kTile + 2 * kRadius];
  int left = blockIdx.x * kTile - kRadius, top = blockIdx.y * kTile - kRadius;
  for (int y = threadIdx.y; y < kTile + 2 * kRadius; y += kTile)
    for (int x = threadIdx.x; x < kTile + 2 * kRadius; x += kTile)
      tile[y][x] = in[min(max(top + y, 0), height - 1) * width + min(max(left + x, 0), width - 1)];
  __syncthreads();
  float sum = 0;
  for (int y = 0; y < kSide; y++)
    for (int x = 0; x < kSide; x++) sum += filter[y * kSide + x] * tile[threadIdx.y + y][threadIdx.x + x];
  int x = left + kRadius + threadIdx.x, y = top + kRadius + threadIdx.y;
  if (x < width && y < height) out[y * width + x] = sum;
}

int main() {
  const int width = 50, height = 37;
  Random random(12);
  std::vector<float> picture = random.floats(width * height), weights = random.floats(kSide * kSide),
                     expected(width * height);
  auto clamp = [](int v, int limit) { return v < 0 ? 0 : v >= limit ? limit - 1 : v; };
  for (int y = 0; y < height; y++)
    for (int x = 0; x < width; x++)
      for (int j = 0; j < kSide; j++)
        for (int i = 0; i < kSide; i++)
          expected[y * width + x] =
              std::fma(weights[j * kSide + i],
                       picture[clamp(y + j - kRadius, height) * width + clamp(x + i - kRadius, width)],
                       expected[y * width + x]);
  CALL(cudaMemcpyToSymbol(filter, weights.data(), sizeof filter));
  Buffer<float> in(picture), out(width * height);
  convolve<<<dim3((width + kTile - 1) / kTile, (height + kTile - 1) / kTile), dim3(kTile, kTile)>>>(
      in, out, width, height);
  LAUNCHED();
  expect_same(out.host(), expected);
  digest(out.host());
  return finish();
}
