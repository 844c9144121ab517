// Barriers for parts of a block: named barriers by inline assembly (arrive and sync), votes at barriers, a
// producer with consumers, cuda::barrier.
#include <cuda/barrier>

#include "check.h"

__global__ void halves(int* out) {  // the first two warps and the last two synchronise separately
  __shared__ int room[128];
  int t = threadIdx.x, half = t / 64;
  room[t] = t;
  for (int round = 0; round <= half; round++) {  // different numbers of rounds
    asm volatile("bar.sync %0, 64;" ::"r"(half + 1) : "memory");
    int next = room[half * 64 + (t + 1) % 64];
    asm volatile("bar.sync %0, 64;" ::"r"(half + 1) : "memory");
    room[t] = next;
  }
  out[t] = room[t];
}

__global__ void produce(int* out) {  // warp 0 fills, warps 1 and 2 read; both barriers count all 96 threads
  __shared__ int item[32];
  int t = threadIdx.x, sum = 0;
  for (int round = 0; round < 5; round++) {
    if (t < 32) {
      item[t] = round * 100 + t;
      asm volatile("bar.arrive 3, 96;" ::: "memory");
      asm volatile("bar.sync 4, 96;" ::: "memory");
    } else {
      asm volatile("bar.sync 3, 96;" ::: "memory");
      sum += item[(t + round) % 32];
      asm volatile("bar.arrive 4, 96;" ::: "memory");
    }
  }
  out[t] = sum;
}

__global__ void votes(int* out) {
  int t = threadIdx.x;
  out[3 * t] = __syncthreads_count(t % 3 == 0);
  out[3 * t + 1] = __syncthreads_and(t < 1000);
  out[3 * t + 2] = __syncthreads_or(t == 77);
}

__global__ void library(int* out) {
#pragma nv_diag_suppress static_var_with_dynamic_init
  __shared__ cuda::barrier<cuda::thread_scope_block> barrier;
  __shared__ int room[64];
  if (threadIdx.x == 0) init(&barrier, blockDim.x);
  __syncthreads();
  int value = threadIdx.x;
  for (int round = 0; round < 4; round++) {
    room[threadIdx.x] = value;
    barrier.arrive_and_wait();
    value = room[(threadIdx.x + 5) % 64] + 1;
    barrier.wait(barrier.arrive());
  }
  out[threadIdx.x] = value;
}

int main() {
  Buffer<int> a(128), b(96), c(3 * 128), d(64);
  halves<<<1, 128>>>(a);
  produce<<<1, 96>>>(b);
  votes<<<1, 128>>>(c);
  library<<<1, 64>>>(d);
  LAUNCHED();
  std::vector<int> ea, eb, ec, ed;
  for (int t = 0; t < 128; t++) ea.push_back(t / 64 * 64 + (t + 1 + t / 64) % 64);
  for (int t = 0; t < 96; t++) {
    int sum = 0;
    for (int round = 0; round < 5; round++) sum += round * 100 + (t + round) % 32;
    eb.push_back(t < 32 ? 0 : sum);
  }
  for (int t = 0; t < 128; t++) ec.insert(ec.end(), {43, 1, 1});
  for (int t = 0; t < 64; t++) ed.push_back((t + 20) % 64 + 4);
  expect_same(a.host(), ea, "halves");
  expect_same(b.host(), eb, "consumed");
  expect_same(d.host(), ed, "library");
  std::vector<int> got = c.host();
  for (int t = 0; t < 128; t++) EXPECT(got[3 * t] == 43 && got[3 * t + 1] != 0 && got[3 * t + 2] != 0);
  digest(a.host());
  digest(b.host());
  digest(d.host());
  return finish();
}
