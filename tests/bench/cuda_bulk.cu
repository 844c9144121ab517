// Much device memory, half of it random and half written zeros, and a step (a small kernel) every
// millisecond:   cuda_bulk --bytes N --log FILE ...
#include <algorithm>

#include "../apps/cuda/checkpoint/saved.h"

__global__ void fill(uint64_t* words, size_t random, size_t all) {
  for (size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x; i < all;
       i += size_t{gridDim.x} * blockDim.x) {
    uint64_t z = i * 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    words[i] = i < random ? z ^ (z >> 27) : 0;
  }
}
__global__ void next(uint64_t* counter) { *counter += 1; }

int main(int argc, char** argv) {
  size_t bytes = size_t{1} << 30;
  for (int i = 1; i + 1 < argc; i++)
    if (!strcmp(argv[i], "--bytes")) bytes = strtoull(argv[i + 1], nullptr, 0);
  steplog_pace = 1000;
  steplog_open(argc, argv, -1);
  Buffer<uint64_t> words(std::max<size_t>(bytes / 8, 1)), counter(std::vector<uint64_t>{0});
  fill<<<64, 256>>>(words, words.count / 2, words.count);
  CALL(cudaDeviceSynchronize());
  while (steplog_done < steplog_steps) {
    next<<<1, 1>>>(counter);
    EXPECT(counter.host()[0] == static_cast<uint64_t>(steplog_done + 1));
    steplog_step();
  }
  mix(words.host());
  steplog_ok();
  return 0;
}
