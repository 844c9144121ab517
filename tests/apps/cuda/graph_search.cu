// Breadth-first search over a random graph, level by level, until the host reads a flag that nothing changed;
// and a sparse matrix times a vector, one warp per row.
#include "check.h"

#include <deque>

__global__ void level(const int* rows, const int* columns, int* distance, int n, int depth, int* changed) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n || distance[i] != depth) return;
  for (int e = rows[i]; e < rows[i + 1]; e++)
    if (atomicCAS(&distance[columns[e]], -1, depth + 1) == -1) *changed = 1;
}

__global__ void multiply(const int* rows, const int* columns, const float* values, const float* x, float* y,
                         int n) {
  int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
  if (row >= n) return;
  float sum = 0;
  for (int e = rows[row] + lane; e < rows[row + 1]; e += 32) sum += values[e] * x[columns[e]];
  for (int offset = 16; offset; offset /= 2) sum += __shfl_down_sync(~0u, sum, offset);
  if (lane == 0) y[row] = sum;
}

int main() {
  const int n = 400;
  Random random(74);
  std::vector<int> rows = {0}, columns;
  for (int i = 0; i < n; i++) {
    int degree = random.below(i % 50 == 0 ? 60 : 4);
    for (int e = 0; e < degree; e++) columns.push_back(random.below(n));
    rows.push_back(columns.size());
  }
  std::vector<int> distance(n, -1), start(n, -1);
  start[0] = distance[0] = 0;
  std::deque<int> queue = {0};
  for (; !queue.empty(); queue.pop_front())
    for (int e = rows[queue.front()]; e < rows[queue.front() + 1]; e++)
      if (distance[columns[e]] < 0)
        distance[columns[e]] = distance[queue.front()] + 1, queue.push_back(columns[e]);
  Buffer<int> dr(rows), dc(columns), dd(start);
  int* changed;
  CALL(cudaHostAlloc(&changed, sizeof *changed, cudaHostAllocMapped));
  int depth = 0;
  do {
    *changed = 0;
    level<<<(n + 63) / 64, 64>>>(dr, dc, dd, n, depth++, changed);
    LAUNCHED();
    CALL(cudaDeviceSynchronize());
  } while (*changed);
  expect_same(dd.host(), distance);
  EXPECT(depth > 3);
  std::vector<float> values = random.floats(columns.size()), x = random.floats(n);
  std::vector<double> y(n);
  for (int i = 0; i < n; i++)
    for (int e = rows[i]; e < rows[i + 1]; e++) y[i] += double(values[e]) * x[columns[e]];
  Buffer<float> dv(values), dx(x), dy(n);
  multiply<<<(n + 3) / 4, 128>>>(dr, dc, dv, dx, dy, n);
  LAUNCHED();
  expect_near(dy.host(), y, 1e-5, 1e-5);
  digest(dd.host());
  digest(dy.host());
  CALL(cudaFreeHost(changed));
  return finish();
}
