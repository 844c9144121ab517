// Inclusive scan of each warp by shuffles up, and segments of 8 lanes by the width argument.
#include "check.h"

__global__ void scan(const int* in, int* whole, int* eighths) {
  int i = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x % 32;
  int value = in[i], small = in[i];
  for (int offset = 1; offset < 32; offset <<= 1) {
    int other = __shfl_up_sync(~0u, value, offset);
    if (lane >= offset) value += other;
  }
  for (int offset = 1; offset < 8; offset <<= 1) {
    int other = __shfl_up_sync(~0u, small, offset, 8);
    if (lane % 8 >= offset) small += other;
  }
  whole[i] = value;
  eighths[i] = small;
}

int main() {
  const int n = 1024;
  Random random(5);
  std::vector<uint32_t> numbers = random.integers(n, 1000);
  std::vector<int> in(numbers.begin(), numbers.end()), whole(n), eighths(n);
  for (int i = 0; i < n; i++) {
    whole[i] = in[i] + (i % 32 ? whole[i - 1] : 0);
    eighths[i] = in[i] + (i % 8 ? eighths[i - 1] : 0);
  }
  Buffer<int> din(in), dw(n), de(n);
  scan<<<n / 128, 128>>>(din, dw, de);
  LAUNCHED();
  expect_same(dw.host(), whole, "whole");
  expect_same(de.host(), eighths, "eighths");
  digest(dw.host());
  digest(de.host());
  return finish();
}
