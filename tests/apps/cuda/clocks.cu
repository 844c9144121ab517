// clock64, the global timer and __nanosleep go forward; special registers identify each block and thread.
#include "check.h"

__global__ void times(long long* clocks, unsigned long long* timer, unsigned* registers) {
  long long before = clock64();
  unsigned long long begin, end;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin));
  for (int i = 0; i < 10; i++) __nanosleep(200000);
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(end));
  long long after = clock64();
  clock_t small = clock();
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  clocks[i] = after - before;
  timer[i] = end - begin;
  unsigned lane, warp, processor;
  asm volatile("mov.u32 %0, %%laneid;" : "=r"(lane));
  asm volatile("mov.u32 %0, %%warpid;" : "=r"(warp));
  asm volatile("mov.u32 %0, %%smid;" : "=r"(processor));
  registers[4 * i] = lane;
  registers[4 * i + 1] = warp < 64;
  registers[4 * i + 2] = processor;
  registers[4 * i + 3] = small != 0;
}

int main() {
  const int n = 96;
  int processors;
  CALL(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, 0));
  Buffer<long long> clocks(n);
  Buffer<unsigned long long> timer(n);
  Buffer<unsigned> registers(4 * n);
  times<<<2, 48>>>(clocks, timer, registers);
  LAUNCHED();
  std::vector<unsigned> r = registers.host();
  for (int i = 0; i < n; i++) {
    EXPECT(clocks.host()[i] > 0);
    EXPECT(timer.host()[i] > 0 && timer.host()[i] < 20000000000ull);
    EXPECT(r[4 * i] == unsigned(i % 48 % 32) && r[4 * i + 1] == 1 && r[4 * i + 2] < unsigned(processors) &&
           r[4 * i + 3] == 1);
  }
  return finish();
}
