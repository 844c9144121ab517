// malloc and free in kernels: many threads build lists that another kernel reads; without memory, malloc
// returns null.
#include "check.h"

struct Cell {
  int value;
  Cell* next;
};

__global__ void build(Cell** heads) {
  Cell* head = nullptr;
  for (unsigned i = 0; i <= threadIdx.x % 7; i++) {
    Cell* cell = static_cast<Cell*>(malloc(sizeof(Cell)));
    cell->value = threadIdx.x * 10 + i;
    cell->next = head;
    head = cell;
  }
  heads[threadIdx.x] = head;
}

__global__ void sum(Cell** heads, int* sums) {
  int total = 0;
  for (Cell* cell = heads[threadIdx.x]; cell;) {
    total += cell->value;
    Cell* next = cell->next;
    free(cell);
    cell = next;
  }
  sums[threadIdx.x] = total;
}

__global__ void too_much(int* failed) { *failed = malloc(size_t{1} << 30) == nullptr; }

int main() {
  const int n = 64;
  CALL(cudaDeviceSetLimit(cudaLimitMallocHeapSize, 16 << 20));
  std::vector<int> expected(n);
  for (int t = 0; t < n; t++)
    for (int i = 0; i <= t % 7; i++) expected[t] += t * 10 + i;
  Buffer<Cell*> heads(n);
  Buffer<int> sums(n), failed(1);
  build<<<1, n>>>(heads);
  sum<<<1, n>>>(heads, sums);
  too_much<<<1, 1>>>(failed);
  LAUNCHED();
  expect_same(sums.host(), expected);
  expect_same(failed.host(), std::vector<int>{1}, "failed");
  digest(sums.host());
  return finish();
}
