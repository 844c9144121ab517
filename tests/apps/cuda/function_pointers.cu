// Device function pointers: a table in device memory, a pointer read through a symbol, a pointer passed as an
// argument.
// run: also=shared
#include "check.h"

typedef int (*Operation)(int, int);

__device__ int add(int a, int b) { return a + b; }
__device__ int subtract(int a, int b) { return a - b; }
__device__ __noinline__ int multiply(int a, int b) { return a * b; }
__device__ int power(int a, int b) {
  int result = 1;
  for (int i = 0; i < (b & 3); i++) result *= a;
  return result;
}
__device__ Operation table[] = {add, subtract, multiply, power};
__device__ Operation chosen = multiply;

__global__ void apply(const int* which, int* out, Operation last) {
  int i = threadIdx.x;
  int value = table[which[i]](i, 7);  // lanes of a warp call different functions
  out[i] = last(value, 3);
}

int main() {
  const int n = 128;
  std::vector<uint32_t> choice = Random(32).integers(n, 4);
  std::vector<int> which(choice.begin(), choice.end()), expected(n);
  for (int i = 0; i < n; i++) {
    int values[] = {i + 7, i - 7, i * 7, i * i * i};
    expected[i] = values[which[i]] * 3;
  }
  Operation last;
  CALL(cudaMemcpyFromSymbol(&last, chosen, sizeof last));
  Buffer<int> dw(which), out(n);
  apply<<<1, n>>>(dw, out, last);
  LAUNCHED();
  expect_same(out.host(), expected);
  digest(out.host());
  return finish();
}
