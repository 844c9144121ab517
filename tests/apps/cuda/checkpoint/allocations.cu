// nvcc: -std=c++17
// run: ways=static
// 100 000 allocations of one byte to 4 MB, of which two thousand live at a time in random order; each still
// has its contents when it is freed. Streams and events are made and destroyed too.
#include "saved.h"

__global__ void stamp(unsigned char* first, size_t size, unsigned char with) {
  if (threadIdx.x == 0) first[0] = with;
  if (threadIdx.x == 1) first[size - 1] = static_cast<unsigned char>(with + (size > 1));
}

struct Block {
  unsigned char* data;
  size_t size;
  unsigned char with;
};

int main(int argc, char** argv) {
  steplog_open(argc, argv, -1);
  DeviceNonce nonce;
  constexpr size_t kLive = 2000;
  std::vector<Block> live;
  uint64_t random = 11;
  const long each = 100000 / steplog_steps + 1;
  unsigned char ends[2];
  while (steplog_done < steplog_steps) {
    for (long i = 0; i < each; i++) {
      uint64_t r = steplog_random(&random);
      if (live.size() >= kLive) {
        std::swap(live[r % live.size()], live.back());
        Block block = live.back();
        if (i % 16 == 0) {
          CALL(cudaMemcpy(ends, block.data, 1, cudaMemcpyDeviceToHost));
          CALL(cudaMemcpy(ends + 1, block.data + block.size - 1, 1, cudaMemcpyDeviceToHost));
          EXPECT(ends[0] == block.with &&
                 ends[1] == static_cast<unsigned char>(block.with + (block.size > 1)));
        }
        CALL(cudaFree(block.data));
        live.pop_back();
      }
      Block block = {nullptr,
                     1 + (r >> 20) % (r % 512 == 0 ? 4000000
                                      : r % 8 == 0 ? 70000
                                                   : 2000),
                     static_cast<unsigned char>(r >> 50)};
      CALL(cudaMalloc(&block.data, block.size));
      EXPECT(reinterpret_cast<uintptr_t>(block.data) % 256 == 0);
      stamp<<<1, 2>>>(block.data, block.size, block.with);
      live.push_back(block);
      if (i % 64 == 0) {
        cudaStream_t stream;
        cudaEvent_t event;
        CALL(cudaStreamCreate(&stream));
        CALL(cudaEventCreate(&event));
        CALL(cudaEventRecord(event, stream));
        CALL(cudaStreamSynchronize(stream));
        CALL(cudaEventDestroy(event));
        CALL(cudaStreamDestroy(stream));
      }
    }
    LAUNCHED();
    steplog_mix(random);
    steplog_step();
  }
  for (const Block& block : live) {
    CALL(cudaMemcpy(ends, block.data, 1, cudaMemcpyDeviceToHost));
    CALL(cudaMemcpy(ends + 1, block.data + block.size - 1, 1, cudaMemcpyDeviceToHost));
    EXPECT(ends[0] == block.with && ends[1] == static_cast<unsigned char>(block.with + (block.size > 1)));
    CALL(cudaFree(block.data));
  }
  nonce.back();
  steplog_ok();
  return 0;
}
