// A cooperative launch: the grid synchronises many times. A grid that is too large for a cooperative launch
// is refused.
#include "check.h"

#include <cooperative_groups.h>

namespace cg = cooperative_groups;

__global__ void rounds(int* data, int n,
                       int count) {  // each round reads what other blocks wrote in the round before
  cg::grid_group grid = cg::this_grid();
  for (int round = 0; round < count; round++) {
    const int* in = data + (round % 2) * n;
    int* out = data + (1 - round % 2) * n;
    for (int i = grid.thread_rank(); i < n; i += grid.size())
      out[i] = in[(i + n / 2) % n] + in[(i + 1) % n] % 1000;
    grid.sync();
  }
}

int main() {
  int n = 2000, count = 12;
  std::vector<int> data(2 * n);
  for (int i = 0; i < n; i++) data[i] = i;
  Buffer<int> device(data);
  int* pointer = device;
  void* arguments[] = {&pointer, &n, &count};
  int possible;
  CALL(cudaDeviceGetAttribute(&possible, cudaDevAttrCooperativeLaunch, 0));
  EXPECT(possible == 1);
  CALL(
      cudaLaunchCooperativeKernel(reinterpret_cast<void*>(rounds), dim3(4), dim3(96), arguments, 0, nullptr));
  for (int round = 0; round < count; round++)
    for (int i = 0; i < n; i++)
      data[(1 - round % 2) * n + i] =
          data[(round % 2) * n + (i + n / 2) % n] + data[(round % 2) * n + (i + 1) % n] % 1000;
  expect_same(device.host(), data);
  digest(device.host());
  FAILS(cudaLaunchCooperativeKernel(reinterpret_cast<void*>(rounds), dim3(1 << 20), dim3(96), arguments, 0,
                                    nullptr),
        cudaErrorCooperativeLaunchTooLarge);
  cudaGetLastError();
  return finish();
}
