// nvcc: -std=c++17
// run: ways=static,shared
// Every kind of device variable: __device__, __constant__, static, an array. With --addresses, one holds the
// address of another and the program keeps their addresses, which must stay the same; without it, copies only
// use the symbols.
#include <sys/mman.h>

#include "saved.h"

__device__ unsigned counter = 5;
__device__ unsigned table[3000];
__constant__ unsigned factors[4] = {3, 5, 7, 11};
static __device__ unsigned long long hidden_sum;
__device__ unsigned* link_to_table;
__device__ unsigned never_written = 123456789;

__global__ void step(unsigned round, bool linked) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  unsigned* to = linked ? link_to_table : table;
  if (i < 3000) to[i] = to[i] * factors[(i + round) % 4] + counter;
  if (i < 3000) atomicAdd(&hidden_sum, static_cast<unsigned long long>(table[i]));
}

__global__ void count() { counter++; }

static void take(uint64_t address) {
  void* const wanted = reinterpret_cast<void*>(address);
  EXPECT(mmap(wanted, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) == wanted);
}

// All of the program's device state is in variables.
static int without_memory() {
  while (steplog_done < steplog_steps) {
    count<<<1, 1>>>();
    LAUNCHED();
    unsigned counted = 0;
    CALL(cudaMemcpyFromSymbol(&counted, counter, sizeof counted));
    steplog_mix(counted);
    steplog_step();
  }
  steplog_ok();
  return 0;
}

int main(int argc, char** argv) {
  steplog_open(argc, argv, -1);
  if (steplog_has(argc, argv, "driver")) take(0x1000'0000'0000);  // the driver's own memory
  if (steplog_has(argc, argv, "arena")) {                         // the device's memory
    take(0x3000'0000'0000);
    return without_memory();
  }
  DeviceNonce nonce;
  unsigned* at;
  unsigned* elsewhere;
  size_t size;
  const bool addresses = steplog_has(argc, argv, "--addresses");
  if (addresses) {
    CALL(cudaGetSymbolAddress(reinterpret_cast<void**>(&at), table));
    CALL(cudaMemcpyToSymbol(link_to_table, &at, sizeof at));
  }
  CALL(cudaGetSymbolSize(&size, table));
  EXPECT(size == 12000);
  {
    Buffer<unsigned> moved(std::vector<unsigned>(3000, 9));
    elsewhere = moved;
    std::vector<unsigned> expected(3000), got(3000);
    unsigned counted = 5;
    unsigned factors_here[4] = {3, 5, 7, 11};
    unsigned long long hidden = 0;
    std::vector<unsigned> values[2] = {std::vector<unsigned>(3000), std::vector<unsigned>(3000, 9)};
    while (steplog_done < steplog_steps) {
      const unsigned round = static_cast<unsigned>(steplog_done);
      unsigned* again;
      if (addresses) {
        CALL(cudaGetSymbolAddress(reinterpret_cast<void**>(&again), table));
        EXPECT(again == at);
      }
      if (addresses && round % 10 == 9) {  // the pointer is moved to other memory, and back
        unsigned* to = round % 20 == 9 ? elsewhere : at;
        CALL(cudaMemcpyToSymbol(link_to_table, &to, sizeof to));
      }
      if (round % 7 == 6) {
        factors_here[round % 4] += 2;
        CALL(cudaMemcpyToSymbol(factors, factors_here, sizeof factors_here));
      }
      step<<<24, 128>>>(round, addresses);
      count<<<1, 1>>>();
      LAUNCHED();
      CALL(cudaDeviceSynchronize());
      std::vector<unsigned>& linked = values[!addresses || (round + 11) / 10 % 2 ? 0 : 1];
      for (unsigned i = 0; i < 3000; i++) linked[i] = linked[i] * factors_here[(i + round) % 4] + counted;
      for (unsigned v : values[0]) hidden += v;
      counted++;
      CALL(cudaMemcpyFromSymbol(got.data(), table, 12000));
      EXPECT(got == values[0]);
      unsigned long long hidden_there;
      unsigned untouched;
      CALL(cudaMemcpyFromSymbol(&hidden_there, hidden_sum, sizeof hidden_there));
      CALL(cudaMemcpyFromSymbol(&untouched, never_written, sizeof untouched));
      EXPECT(hidden_there == hidden && untouched == 123456789);
      mix(got);
      steplog_mix(hidden);
      steplog_step();
    }
  }
  nonce.back();
  steplog_ok();
  return 0;
}
