// nvcc: -std=c++17
// run: build=long ways=static
// Runs far ahead of the device: each step queues thousands of launches, copies, memsets and events on eight
// streams and ends while most of them are pending; the host waits for work of three steps before. The numbers
// show the order of each stream and event. With --spin, the device also runs long kernels.
#include "saved.h"

constexpr int kStreams = 8, kEach = 150, kLanes = 32;

__global__ void step_of(uint32_t* mine, const uint32_t* neighbour, uint32_t with) {
  uint32_t* v = mine + threadIdx.x;
  *v = (*v + with) * 2654435761u ^ (neighbour ? neighbour[threadIdx.x] : 0);
}
__global__ void spin(uint32_t* v, int rounds) {
  uint32_t x = v[0];
  for (int i = 0; i < rounds; i++) x = x * 1664525u + 1013904223u;
  v[0] = x;
}

int main(int argc, char** argv) {
  steplog_open(argc, argv, -1);
  const bool spins = steplog_has(argc, argv, "--spin");
  DeviceNonce nonce;
  cudaStream_t s[kStreams];
  cudaEvent_t passed[kStreams][4], done[4];
  uint32_t *memory, *from, *to[4];
  CALL(cudaMalloc(&memory, 2 * kStreams * kLanes * 4));
  CALL(cudaMallocHost(&from, kStreams * kEach * 4));
  for (auto& t : to) CALL(cudaMallocHost(&t, kStreams * kLanes * 4));
  CALL(cudaMemset(memory, 0, 2 * kStreams * kLanes * 4));
  for (int i = 0; i < kStreams; i++) {
    CALL(cudaStreamCreateWithPriority(&s[i], cudaStreamNonBlocking, -(i % 3)));
    for (auto& e : passed[i]) CALL(cudaEventCreateWithFlags(&e, cudaEventDisableTiming));
  }
  for (auto& e : done) CALL(cudaEventCreateWithFlags(&e, cudaEventDisableTiming | cudaEventBlockingSync));
  CALL(cudaDeviceSynchronize());
  uint32_t model[2][kStreams][kLanes] = {}, kept[4][kStreams][kLanes];
  while (steplog_done < steplog_steps) {
    const long step = steplog_done;
    const int slot = static_cast<int>(step % 4);
    // Even streams work independently; odd ones then read their left neighbour's result; the next round waits
    // for the odd ones.
    for (int i = 0; i < kStreams; i++) {
      uint32_t* mine = memory + i * kLanes;
      const uint32_t* left = memory + (i + kStreams - 1) % kStreams * kLanes;
      if (i % 2 == 0 && step) {
        CALL(cudaStreamWaitEvent(s[i], passed[i + 1][(slot + 3) % 4], 0));
      }
      if (i % 2) CALL(cudaStreamWaitEvent(s[i], passed[i - 1][slot], 0));
      if (spins && step % 5 == i % 5) {
        spin<<<1, 1, 0, s[i]>>>(mine, 20000);
        uint32_t& x = model[0][i][0];
        for (int r = 0; r < 20000; r++) x = x * 1664525u + 1013904223u;
      }
      for (int k = 0; k < kEach; k++) {
        const uint32_t with = static_cast<uint32_t>(step * 1000 + k);
        step_of<<<1, kLanes, 0, s[i]>>>(mine, i % 2 ? left : nullptr, with);
        for (int t = 0; t < kLanes; t++)
          model[0][i][t] = (model[0][i][t] + with) * 2654435761u ^ (i % 2 ? model[0][i - 1][t] : 0);
        if (k % 50 == 17) {
          CALL(cudaMemsetAsync(mine + 5, k, 8, s[i]));
          memset(&model[0][i][5], k, 8);
        }
        if (k % 50 == 33) {
          const uint32_t word = with * 3;  // pageable memory: copied during the call
          CALL(cudaMemcpyAsync(mine + 9, &word, 4, cudaMemcpyHostToDevice, s[i]));
          model[0][i][9] = word;
        }
        if (k % 50 == 41) {
          CALL(cudaMemcpyAsync(mine + 16, mine, 32, cudaMemcpyDeviceToDevice, s[i]));
          memcpy(&model[0][i][16], &model[0][i][0], 32);
        }
      }
      CALL(cudaEventRecord(passed[i][slot], s[i]));
    }
    for (int i = 0; i < kStreams; i++) CALL(cudaStreamWaitEvent(s[1], passed[i][slot], 0));
    CALL(cudaMemcpyAsync(to[slot], memory, kStreams * kLanes * 4, cudaMemcpyDeviceToHost, s[1]));
    CALL(cudaEventRecord(passed[1][slot], s[1]));
    CALL(cudaEventRecord(done[slot], s[1]));
    for (int i = 0; i < kStreams; i++) CALL(cudaStreamWaitEvent(s[i], done[slot], 0));
    memcpy(kept[slot], model[0], sizeof model[0]);
    LAUNCHED();
    if (step >= 3) {
      const int old = static_cast<int>((step + 1) % 4);
      CALL(cudaEventSynchronize(done[old]));
      EXPECT(!memcmp(to[old], kept[old], sizeof kept[old]));
      mix(std::vector<uint32_t>(to[old], to[old] + kStreams * kLanes));
    }
    steplog_step();
  }
  CALL(cudaDeviceSynchronize());
  uint32_t got[kStreams][kLanes];
  CALL(cudaMemcpy(got, memory, sizeof got, cudaMemcpyDeviceToHost));
  EXPECT(!memcmp(got, model[0], sizeof got));
  nonce.back();
  steplog_ok();
  return 0;
}
