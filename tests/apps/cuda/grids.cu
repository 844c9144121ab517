// Three-dimensional grids and blocks, and many small blocks: every thread runs once, with its own indices.
// Also launches by cudaLaunchKernel and cudaLaunchKernelEx.
#include "check.h"

__global__ void count(int* visits, unsigned* sums) {
  unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  unsigned thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  unsigned size = blockDim.x * blockDim.y * blockDim.z;
  visits[block * size + thread]++;
  atomicAdd(sums, threadIdx.x + 10 * threadIdx.y + 100 * threadIdx.z + 1000 * blockIdx.x +
                      10000 * blockIdx.y + 100000 * blockIdx.z);
}

static void check(dim3 grid, dim3 block, int how) {
  int n = grid.x * grid.y * grid.z * block.x * block.y * block.z;
  Buffer<int> visits(n);
  Buffer<unsigned> sums(1);
  visits.zero();
  sums.zero();
  int* first = visits;
  unsigned* second = sums;
  void* arguments[] = {&first, &second};
  if (how == 0) {
    count<<<grid, block>>>(visits, sums);
  } else if (how == 1) {
    CALL(cudaLaunchKernel(reinterpret_cast<void*>(count), grid, block, arguments, 0, nullptr));
  } else {
    cudaLaunchConfig_t config = {};
    config.gridDim = grid;
    config.blockDim = block;
    CALL(cudaLaunchKernelEx(&config, count, first, second));
  }
  LAUNCHED();
  unsigned expected = 0;
  for (unsigned z = 0; z < grid.z * block.z; z++)
    for (unsigned y = 0; y < grid.y * block.y; y++)
      for (unsigned x = 0; x < grid.x * block.x; x++)
        expected += x % block.x + 10 * (y % block.y) + 100 * (z % block.z) + 1000 * (x / block.x) +
                    10000 * (y / block.y) + 100000 * (z / block.z);
  expect_same(visits.host(), std::vector<int>(n, 1), "visits");
  EXPECT(sums.host()[0] == expected);
  digest(expected);
}

int main() {
  check(dim3(3, 4, 5), dim3(7, 3, 2), 0);
  check(dim3(1, 1, 1), dim3(2, 8, 64), 1);
  check(dim3(1, 9, 2), dim3(33, 1, 1), 2);
  check(dim3(3000, 1, 1), dim3(1, 1, 1), 0);
  check(dim3(1, 1, 300), dim3(1, 31, 1), 0);
  return finish();
}
