// Spin locks: one that all threads of all blocks take (including lanes of one warp), a ticket lock, one lock
// per bucket.
#include "check.h"

__device__ int lock_word, next_ticket, serving;

__global__ void locked(int* counter, int* list) {
  bool done = false;
  while (!done) {
    if (atomicCAS(&lock_word, 0, 1) == 0) {
      __threadfence();
      int at = *reinterpret_cast<volatile int*>(counter);
      list[at] = blockIdx.x * blockDim.x + threadIdx.x;
      *reinterpret_cast<volatile int*>(counter) = at + 1;
      __threadfence();
      atomicExch(&lock_word, 0);
      done = true;
    }
  }
}

__global__ void tickets(int* sum) {
  if (threadIdx.x == 0) {
    int mine = atomicAdd(&next_ticket, 1);
    while (atomicAdd(&serving, 0) != mine) __nanosleep(100);
    __threadfence();
    *sum = *sum * 3 + 1;
    __threadfence();
    atomicAdd(&serving, 1);
  }
}

__global__ void buckets(int* locks, volatile long long* sums) {
  int i = blockIdx.x * blockDim.x + threadIdx.x, bucket = i % 5;
  for (bool done = false; !done;) {
    if (atomicCAS(&locks[bucket], 0, 1) == 0) {
      __threadfence();
      sums[bucket] = sums[bucket] + i;
      __threadfence();
      atomicExch(&locks[bucket], 0);
      done = true;
    }
  }
}

int main() {
  const int blocks = 3, threads = 64, n = blocks * threads;
  Buffer<int> counter(std::vector<int>(1)), list(std::vector<int>(n, -1)), sum(std::vector<int>(1)),
      locks(std::vector<int>(5));
  Buffer<long long> sums{std::vector<long long>(5)};
  locked<<<blocks, threads>>>(counter, list);
  tickets<<<8, 32>>>(sum);
  buckets<<<blocks, threads>>>(locks, sums.data);
  LAUNCHED();
  EXPECT(counter.host()[0] == n);
  std::vector<int> seen(n);
  for (int who : list.host()) {
    EXPECT(who >= 0 && who < n);
    EXPECT(!seen[who]++);
  }
  int expected = 0;
  for (int i = 0; i < 8; i++) expected = expected * 3 + 1;
  EXPECT(sum.host()[0] == expected);
  std::vector<long long> expected_sums(5);
  for (int i = 0; i < n; i++) expected_sums[i % 5] += i;
  expect_same(sums.host(), expected_sums);
  digest(expected);
  return finish();
}
