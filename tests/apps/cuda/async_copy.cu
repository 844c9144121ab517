// nvcc: -arch=sm_80
// Asynchronous copies into shared memory (cp.async) in two stages, by the pipeline functions and by
// cooperative groups.
// run: also=shared,per-thread
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cuda_pipeline.h>

#include "check.h"

constexpr int kTile = 128;

__global__ void staged(const int* in, int* out, int tiles) {
  __shared__ __align__(16) int room[2][kTile];
  auto fetch = [&](int tile) {
    if (threadIdx.x < kTile / 4)
      __pipeline_memcpy_async(&room[tile % 2][4 * threadIdx.x], &in[tile * kTile + 4 * threadIdx.x], 16);
    __pipeline_commit();
  };
  fetch(0);
  for (int tile = 0; tile < tiles; tile++) {
    if (tile + 1 < tiles) fetch(tile + 1);
    __pipeline_wait_prior(tile + 1 < tiles ? 1 : 0);
    __syncthreads();
    out[tile * kTile + threadIdx.x] = room[tile % 2][kTile - 1 - threadIdx.x] * 2;
    __syncthreads();
  }
}

__global__ void by_group(const int* in, int* out) {
  __shared__ int room[100];
  auto block = cooperative_groups::this_thread_block();
  cooperative_groups::memcpy_async(block, room, in + 3, sizeof room);
  cooperative_groups::wait(block);
  for (int i = threadIdx.x; i < 100; i += blockDim.x) out[i] = room[99 - i];
}

int main() {
  const int tiles = 5, n = tiles * kTile;
  std::vector<uint32_t> numbers = Random(72).integers(n, 1000);
  std::vector<int> in(numbers.begin(), numbers.end()), expected(n), reversed(100);
  for (int i = 0; i < n; i++) expected[i] = 2 * in[i / kTile * kTile + kTile - 1 - i % kTile];
  for (int i = 0; i < 100; i++) reversed[i] = in[3 + 99 - i];
  Buffer<int> din(in), out(n), few(100);
  staged<<<1, kTile>>>(din, out, tiles);
  by_group<<<1, 32>>>(din, few);
  LAUNCHED();
  expect_same(out.host(), expected);
  expect_same(few.host(), reversed);
  digest(out.host());
  return finish();
}
