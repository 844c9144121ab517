// The Mandelbrot set in fixed-point integers: exact results, highly divergent; a switch with many cases
// chooses the colours.
#include "check.h"

__device__ __host__ int escape(int column, int row) {
  int64_t cx = (int64_t{column} << 28) / 32 - (2ll << 28) - (1ll << 27),
          cy = (int64_t{row} << 28) / 20 - (1ll << 28) - (1ll << 26);
  int64_t x = 0, y = 0;
  int steps = 0;
  for (; steps < 60; steps++) {
    int64_t xx = (x * x) >> 28, yy = (y * y) >> 28;
    if (xx + yy > (4ll << 28)) break;
    y = ((x * y) >> 27) + cy;
    x = xx - yy + cx;
  }
  return steps;
}

__device__ __host__ int colour(int steps) {
  switch (steps % 12) {  // a jump table
    case 0:
      return 17;
    case 1:
      return steps * 3;
    case 2:
      return steps ^ 85;
    case 3:
      return -steps;
    case 4:
      return 4;
    case 5:
      return steps << 3;
    case 6:
      return steps / 3;
    case 7:
      return 1000 - steps;
    case 8:
      return steps * steps;
    case 9:
      return ~steps;
    case 10:
      return steps % 7;
    default:
      return 99;
  }
}

__global__ void draw(int* out, int width, int height) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x < width && y < height) out[y * width + x] = colour(escape(x, y));
}

int main() {
  const int width = 100, height = 50;
  std::vector<int> expected;
  for (int y = 0; y < height; y++)
    for (int x = 0; x < width; x++) expected.push_back(colour(escape(x, y)));
  Buffer<int> out(width * height);
  draw<<<dim3((width + 7) / 8, (height + 7) / 8), dim3(8, 8)>>>(out, width, height);
  LAUNCHED();
  expect_same(out.host(), expected);
  digest(out.host());
  return finish();
}
