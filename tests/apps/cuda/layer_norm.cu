// Layer norm forward and backward, a block per row, Welford's mean and variance merged by shuffles.
#include "check.h"

struct Moments {
  float count, mean, squares;
};

__device__ Moments merge(Moments a, Moments b) {
  float count = a.count + b.count;
  if (count == 0) return a;
  float difference = b.mean - a.mean;
  return {count, a.mean + difference * b.count / count,
          a.squares + b.squares + difference * difference * a.count * b.count / count};
}

__device__ Moments merge_warp(Moments m) {
  for (int offset = 16; offset; offset >>= 1) {
    Moments other = {__shfl_down_sync(~0u, m.count, offset), __shfl_down_sync(~0u, m.mean, offset),
                     __shfl_down_sync(~0u, m.squares, offset)};
    m = merge(m, other);
  }
  return m;
}

__global__ void forward(const float* x, const float* gain, const float* bias, float* y, float* means,
                        float* scales, int columns) {
  __shared__ Moments parts[4];
  __shared__ float mean, scale;
  const float* row = x + blockIdx.x * columns;
  Moments m = {0, 0, 0};
  for (int c = threadIdx.x; c < columns; c += blockDim.x) m = merge(m, {1, row[c], 0});
  m = merge_warp(m);
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = m;
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int w = 1; w < 4; w++) m = merge(m, parts[w]);
    means[blockIdx.x] = mean = m.mean;
    scales[blockIdx.x] = scale = rsqrtf(m.squares / m.count + 1e-5f);
  }
  __syncthreads();
  for (int c = threadIdx.x; c < columns; c += blockDim.x)
    y[blockIdx.x * columns + c] = (row[c] - mean) * scale * gain[c] + bias[c];
}

// A thread per column: the gradients of gain and bias, rows in order.
__global__ void backward(const float* x, const float* dy, const float* means, const float* scales,
                         float* dgain, float* dbias, int rows, int columns) {
  int c = blockIdx.x * blockDim.x + threadIdx.x;
  if (c >= columns) return;
  float g = 0, b = 0;
  for (int r = 0; r < rows; r++) {
    g += dy[r * columns + c] * (x[r * columns + c] - means[r]) * scales[r];
    b += dy[r * columns + c];
  }
  dgain[c] = g;
  dbias[c] = b;
}

int main() {
  const int rows = 19, columns = 300;
  Random random(14);
  std::vector<float> x = random.floats(rows * columns, 3, 9), gain = random.floats(columns),
                     bias = random.floats(columns), dy = random.floats(rows * columns);
  std::vector<double> y(rows * columns), dgain(columns), dbias(columns);
  for (int r = 0; r < rows; r++) {
    double mean = 0, variance = 0;
    for (int c = 0; c < columns; c++) mean += x[r * columns + c] / double(columns);
    for (int c = 0; c < columns; c++)
      variance += (x[r * columns + c] - mean) * (x[r * columns + c] - mean) / columns;
    for (int c = 0; c < columns; c++) {
      double normal = (x[r * columns + c] - mean) / std::sqrt(variance + 1e-5);
      y[r * columns + c] = normal * gain[c] + bias[c];
      dgain[c] += dy[r * columns + c] * normal;
      dbias[c] += dy[r * columns + c];
    }
  }
  Buffer<float> dx(x), dg(gain), db(bias), out(rows * columns), means(rows), scales(rows), ddy(dy),
      odg(columns), odb(columns);
  forward<<<rows, 128>>>(dx, dg, db, out, means, scales, columns);
  backward<<<(columns + 63) / 64, 64>>>(dx, ddy, means, scales, odg, odb, rows, columns);
  LAUNCHED();
  expect_near(out.host(), y, 1e-4, 1e-5, "y");
  expect_near(odg.host(), dgain, 1e-4, 1e-4, "gain's gradient");
  expect_near(odb.host(), dbias, 1e-4, 1e-5, "bias's gradient");
  digest(out.host());
  digest(odg.host());
  return finish();
}
