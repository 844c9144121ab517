// The usual first program: c = a + b.
// run: also=shared,per-thread
#include "check.h"

__global__ void add(const float* a, const float* b, float* c, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) c[i] = a[i] + b[i];
}

int main() {
  const int n = 10007;  // the last block is not full
  Random random(1);
  std::vector<float> a = random.floats(n), b = random.floats(n), expected(n);
  for (int i = 0; i < n; i++) expected[i] = a[i] + b[i];
  Buffer<float> da(a), db(b), dc(n);
  add<<<(n + 255) / 256, 256>>>(da, db, dc, n);
  LAUNCHED();
  CALL(cudaDeviceSynchronize());
  expect_same(dc.host(), expected);
  digest(dc.host());
  return finish();
}
