// Recursion on the device: Ackermann, quick sort of local arrays, mutual recursion, depth up to the stack
// limit.
#include "check.h"

__device__ __noinline__ int ackermann(int m, int n) {
  if (m == 0) return n + 1;
  if (n == 0) return ackermann(m - 1, 1);
  return ackermann(m - 1, ackermann(m, n - 1));
}
__device__ bool odd(unsigned n);
__device__ __noinline__ bool even(unsigned n) { return n == 0 || odd(n - 1); }
__device__ __noinline__ bool odd(unsigned n) { return n != 0 && even(n - 1); }
__device__ __noinline__ void quick_sort(int* v, int first, int last) {
  if (first >= last) return;
  int pivot = v[(first + last) / 2], i = first, j = last;
  while (i <= j) {
    while (v[i] < pivot) i++;
    while (v[j] > pivot) j--;
    if (i <= j) {
      int t = v[i];
      v[i++] = v[j];
      v[j--] = t;
    }
  }
  quick_sort(v, first, j);
  quick_sort(v, i, last);
}

__global__ void run(int* out) {
  int i = threadIdx.x, values[24];
  for (int k = 0; k < 24; k++) values[k] = (k * 7919 + i * 104729) % 1000;
  quick_sort(values, 0, 23);
  bool sorted = true;
  for (int k = 1; k < 24; k++) sorted = sorted && values[k - 1] <= values[k];
  out[3 * i] = ackermann(2, i % 4);
  out[3 * i + 1] = even(i);
  out[3 * i + 2] = sorted ? values[0] * 1000 + values[23] : -1;
}

int main() {
  const int n = 40;
  CALL(cudaDeviceSetLimit(cudaLimitStackSize, 16 << 10));
  std::vector<int> expected;
  for (int i = 0; i < n; i++) {
    int low = 1000, high = 0;
    for (int k = 0; k < 24; k++) {
      int value = (k * 7919 + i * 104729) % 1000;
      low = std::min(low, value);
      high = std::max(high, value);
    }
    expected.insert(expected.end(), {2 * (i % 4) + 3, i % 2 == 0, low * 1000 + high});
  }
  Buffer<int> out(3 * n);
  run<<<1, n>>>(out);
  LAUNCHED();
  expect_same(out.host(), expected);
  digest(out.host());
  return finish();
}
