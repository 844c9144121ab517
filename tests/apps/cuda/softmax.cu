// Row-wise softmax, one warp per row: maximum and sum by shuffles.
#include "check.h"

__global__ void softmax(const float* in, float* out, int rows, int columns) {
  int row = blockIdx.x * blockDim.y + threadIdx.y, lane = threadIdx.x;
  if (row >= rows) return;  // true for the whole warp or none of it
  float top = -INFINITY, sum = 0;
  for (int c = lane; c < columns; c += 32) top = fmaxf(top, in[row * columns + c]);
  for (int mask = 16; mask; mask >>= 1) top = fmaxf(top, __shfl_xor_sync(~0u, top, mask));
  for (int c = lane; c < columns; c += 32) sum += expf(in[row * columns + c] - top);
  for (int mask = 16; mask; mask >>= 1) sum += __shfl_xor_sync(~0u, sum, mask);
  for (int c = lane; c < columns; c += 32) out[row * columns + c] = expf(in[row * columns + c] - top) / sum;
}

int main() {
  const int rows = 37, columns = 77;
  std::vector<float> in = Random(13).floats(rows * columns, -30, 30);
  in[5] = -INFINITY;
  std::vector<double> expected(rows * columns);
  for (int r = 0; r < rows; r++) {
    double sum = 0, top = -INFINITY;
    for (int c = 0; c < columns; c++) top = std::fmax(top, in[r * columns + c]);
    for (int c = 0; c < columns; c++) sum += std::exp(in[r * columns + c] - top);
    for (int c = 0; c < columns; c++) expected[r * columns + c] = std::exp(in[r * columns + c] - top) / sum;
  }
  Buffer<float> din(in), out(rows * columns);
  softmax<<<(rows + 3) / 4, dim3(32, 4)>>>(din, out, rows, columns);
  LAUNCHED();
  expect_near(out.host(), expected, 1e-5, 1e-12);
  digest(out.host());
  return finish();
}
