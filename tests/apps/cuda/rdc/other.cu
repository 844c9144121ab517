// The second file of the separately compiled program: functions and variables that main.cu uses, and a static
// with the same name.
#include "other.h"

#include "../check.h"

__device__ int table[4] = {10, 20, 30, 40};
__constant__ int limit = 1;
static __device__ int counter;

static __device__ int square(int x) { return x * x; }
static __device__ int negative(int x) { return -x; }

__device__ int twice(int x) { return 2 * x; }
__device__ Operation choose(int i) { return i % 2 ? square : negative; }
__device__ void count_up() { atomicAdd(&counter, 1); }

int counted() {
  int value;
  CALL(cudaMemcpyFromSymbol(&value, counter, sizeof value));
  return value;
}
