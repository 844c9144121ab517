// Loops of different length, early returns, nested branches, breaks, and lanes of one warp that wait for each
// other.
#include "check.h"

__device__ __host__ int collatz(unsigned n) {
  int steps = 0;
  while (n != 1) {
    n = n % 2 ? 3 * n + 1 : n / 2;
    steps++;
  }
  return steps;
}

__device__ __host__ int tangled(int i) {
  int value = 0;
  for (int a = 0; a < 10; a++) {
    if ((i >> (a % 5)) & 1) {
      if (a == i % 7) continue;
      value += a * i;
      for (int b = 0; b < a; b++) {
        if (b * a == i % 20) goto out;
        value ^= b;
      }
    } else if (a > i % 11)
      break;
    switch (i % 6) {
      case 0:
        value += 3;
      case 1:
        value -= 1;
        break;
      case 3:
        value *= 3;
        break;
      case 4:
        return value + 100000;
      default:
        value++;
    }
  }
out:
  return value;
}

__global__ void run(int* steps, int* values) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  values[i] = tangled(i);
  if (i % 3 == 2) return;
  steps[i] = collatz(i + 1);
}

// A chain of lanes, each waiting for the previous one. Works only with independent thread scheduling.
__global__ void chain(volatile int* turn, int* order) {
  int lane = threadIdx.x;
  while (*turn != lane) {
  }
  order[lane] = lane * lane;
  __threadfence();
  *turn = lane + 1;
}

int main() {
  const int n = 512;
  std::vector<int> steps(n), values(n), order(32);
  for (int i = 0; i < n; i++) {
    values[i] = tangled(i);
    if (i % 3 != 2) steps[i] = collatz(i + 1);
  }
  for (int i = 0; i < 32; i++) order[i] = i * i;
  Buffer<int> ds{std::vector<int>(n)}, dv(n), turn{std::vector<int>(1)}, dorder(32);
  run<<<4, 128>>>(ds, dv);
  chain<<<1, 32>>>(turn.data, dorder);
  LAUNCHED();
  expect_same(ds.host(), steps, "steps");
  expect_same(dv.host(), values, "values");
  expect_same(dorder.host(), order, "order");
  digest(ds.host());
  digest(dv.host());
  return finish();
}
