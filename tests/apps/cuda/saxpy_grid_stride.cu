// y = a x + y by a grid smaller than the vectors; the fused multiply-add is exact.
#include "check.h"

__global__ void saxpy(size_t n, float a, const float* __restrict__ x, float* __restrict__ y) {
  for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += size_t{blockDim.x} * gridDim.x)
    y[i] = a * x[i] + y[i];
}

int main() {
  const size_t n = 40001;
  Random random(2);
  std::vector<float> x = random.floats(n), y = random.floats(n), expected(n);
  for (size_t i = 0; i < n; i++) expected[i] = std::fma(1.7f, x[i], y[i]);
  Buffer<float> dx(x), dy(y);
  saxpy<<<7, 96>>>(n, 1.7f, dx, dy);
  LAUNCHED();
  expect_same(dy.host(), expected);
  digest(dy.host());
  return finish();
}
