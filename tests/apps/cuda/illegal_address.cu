// Illegal accesses, each in a child: one element beyond an allocation, before it, null, host memory, freed
// memory, misaligned, shared memory out of bounds, a write to constant memory.
#include "child.h"

#include <functional>

__global__ void read(const int* from, int* to) { *to = *from; }
__global__ void write(int* to) { *to = 1; }
__global__ void shared(int index, int* to) {
  extern __shared__ int part[];
  part[index] = index;
  __syncthreads();
  *to = part[index];
}
__global__ void local(int index, int* to) {
  int values[4] = {1, 2, 3, 4};
  values[index] = 5;
  *to = values[(index + 1) % 4];
}

static void expect_fault(const char* what, cudaError_t expected,
                         std::function<void(int* memory, int n)> body) {
  Ended ended = in_child([&] {
    int* memory;
    CALL(cudaMalloc(&memory, 100 * sizeof(int)));
    CALL(cudaMemset(memory, 0, 100 * sizeof(int)));
    body(memory, 100);
    cudaError_t error = cudaDeviceSynchronize();
    check_error(error, expected, what, __LINE__);
    check_error(cudaFree(memory), expected, "afterwards", __LINE__);
  });
  expect_child(ended, what);
}

int main() {
  expect_child(in_child([] {
                 Buffer<int> memory(std::vector<int>(100));
                 read<<<1, 1>>>(memory + 99, memory);
                 shared<<<1, 1, 16>>>(3, memory);
                 local<<<1, 1>>>(3, memory);
                 CALL(cudaDeviceSynchronize());
               }),
               "what is allowed");
  expect_fault("read beyond", cudaErrorIllegalAddress, [](int* m, int n) { read<<<1, 1>>>(m + n, m); });
  expect_fault("write beyond", cudaErrorIllegalAddress, [](int* m, int n) { write<<<1, 1>>>(m + n); });
  expect_fault("write before", cudaErrorIllegalAddress, [](int* m, int) { write<<<1, 1>>>(m - 1); });
  expect_fault("null", cudaErrorIllegalAddress, [](int* m, int) { read<<<1, 1>>>(nullptr, m); });
  expect_fault("host memory", cudaErrorIllegalAddress, [](int* m, int) {
    static int here;
    read<<<1, 1>>>(&here, m);
  });
  expect_fault("freed", cudaErrorIllegalAddress, [](int* m, int) {
    int* other;
    CALL(cudaMalloc(&other, 4));
    CALL(cudaFree(other));
    read<<<1, 1>>>(other, m);
  });
  expect_fault("misaligned", cudaErrorMisalignedAddress,
               [](int* m, int) { write<<<1, 1>>>(reinterpret_cast<int*>(reinterpret_cast<char*>(m) + 2)); });
  expect_fault("shared memory", cudaErrorIllegalAddress,
               [](int* m, int) { shared<<<1, 1, 16>>>(100000, m); });
  return finish();
}
