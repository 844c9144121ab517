// __managed__ variables with initial values: host and device read and write them by name.
// run: also=shared
#include "check.h"

struct Pair {
  int first;
  double second;
};

__managed__ int counter = 41;
__managed__ float table[100];
__managed__ Pair pair = {7, 2.5};
__managed__ int* pointer = nullptr;

__global__ void use() {
  int i = threadIdx.x;
  atomicAdd(&counter, 1);
  table[i] = table[i] + pair.first * i;
  if (i == 0) {
    pair.second *= 2;
    *pointer = 99;
  }
}

int main() {
  EXPECT(counter == 41 && pair.first == 7 && pair.second == 2.5 && pointer == nullptr);
  for (int i = 0; i < 100; i++) table[i] = 1000 * i;
  int* target;
  CALL(cudaMallocManaged(&target, sizeof(int)));
  pointer = target;
  use<<<1, 100>>>();
  LAUNCHED();
  CALL(cudaDeviceSynchronize());
  EXPECT(counter == 141 && pair.second == 5 && *target == 99);
  for (int i = 0; i < 100; i++) EXPECT(table[i] == 1007 * i);
  void* address;
  CALL(cudaGetSymbolAddress(&address, counter));
  EXPECT(address == &counter);
  CALL(cudaFree(target));
  digest(counter);
  return finish();
}
