// nvcc: -std=c++17
// run: ways=static,shared
// Managed variables that host and device write in turn: numbers, an array, and one that holds its own
// address.
#include "saved.h"

__managed__ unsigned sum = 1;
__managed__ unsigned table[3000];
__managed__ unsigned* to_table;

__global__ void step(unsigned round) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < 3000) to_table[i] = to_table[i] * 5 + round;
  if (i == 0) sum = sum * 2 + round;
}

int main(int argc, char** argv) {
  steplog_open(argc, argv, -1);
  DeviceNonce nonce;
  to_table = table;
  unsigned *at = table, *asked, expected = 1;
  CALL(cudaGetSymbolAddress(reinterpret_cast<void**>(&asked), table));
  EXPECT(asked == at);
  std::vector<unsigned> values(3000);
  while (steplog_done < steplog_steps) {
    const unsigned round = static_cast<unsigned>(steplog_done);
    EXPECT(to_table == at && table == at);
    step<<<24, 128>>>(round);
    LAUNCHED();
    CALL(cudaDeviceSynchronize());
    expected = expected * 2 + round;
    EXPECT(sum == expected);
    for (unsigned i = 0; i < 3000; i++) {
      values[i] = values[i] * 5 + round;
      EXPECT(table[i] == values[i]);
    }
    sum = expected ^= 0x10;  // written by the host
    table[round] = values[round] += 7;
    mix(values);
    steplog_mix(sum);
    steplog_step();
  }
  nonce.back();
  steplog_ok();
  return 0;
}
