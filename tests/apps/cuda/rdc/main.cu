// nvcc: -rdc=true -arch=sm_80
// Separate compilation: functions, variables and a function pointer of another file, linked on the device.
// run: also=shared
#include "../check.h"
#include "other.h"

__global__ void use(int* out) {
  int i = threadIdx.x;
  Operation operation = choose(i);
  out[i] = twice(i) + table[i % 4] + operation(i) + limit;
  count_up();
}

int main() {
  const int n = 64;
  Buffer<int> out(n);
  int nine = 9;
  CALL(cudaMemcpyToSymbol(limit, &nine, sizeof nine));
  use<<<1, n>>>(out);
  LAUNCHED();
  std::vector<int> expected(n);
  for (int i = 0; i < n; i++) expected[i] = 2 * i + 10 * (i % 4 + 1) + (i % 2 ? i * i : -i) + 9;
  expect_same(out.host(), expected);
  EXPECT(counted() == n);
  digest(out.host());
  return finish();
}
