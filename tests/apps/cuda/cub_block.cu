// nvcc: -std=c++17
// run: ways=static,shared
// CUB inside a kernel: a block's load, sort, scan, reduction and store.
#include <cub/block/block_load.cuh>
#include <cub/block/block_radix_sort.cuh>
#include <cub/block/block_reduce.cuh>
#include <cub/block/block_scan.cuh>

#include <algorithm>

#include "check.h"

constexpr int kThreads = 64, kItems = 4, kTile = kThreads * kItems;

__global__ void work(const int* in, int* sorted, int* scanned, int* sums) {
  using Load = cub::BlockLoad<int, kThreads, kItems, cub::BLOCK_LOAD_TRANSPOSE>;
  using Sort = cub::BlockRadixSort<int, kThreads, kItems>;
  using Scan = cub::BlockScan<int, kThreads>;
  using Reduce = cub::BlockReduce<int, kThreads>;
  __shared__ union {
    Load::TempStorage load;
    Sort::TempStorage sort;
    Scan::TempStorage scan;
    Reduce::TempStorage reduce;
  } room;
  int items[kItems], sums_before[kItems], first = blockIdx.x * kTile;
  Load(room.load).Load(in + first, items);
  __syncthreads();
  Scan(room.scan).ExclusiveSum(items, sums_before);
  __syncthreads();
  int sum = Reduce(room.reduce).Sum(items);
  __syncthreads();
  Sort(room.sort).Sort(items);
  for (int i = 0; i < kItems; i++) {
    sorted[first + threadIdx.x * kItems + i] = items[i];
    scanned[first + threadIdx.x * kItems + i] = sums_before[i];
  }
  if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

int main() {
  const int blocks = 3, n = blocks * kTile;
  std::vector<uint32_t> numbers = Random(54).integers(n, 2000);
  std::vector<int> in(n), sorted, scanned(n), sums(blocks);
  for (int i = 0; i < n; i++) in[i] = int(numbers[i]) - 1000;
  sorted = in;
  for (int b = 0; b < blocks; b++) {
    for (int i = 0; i < kTile; i++) {
      scanned[b * kTile + i] = sums[b];
      sums[b] += in[b * kTile + i];
    }
    std::sort(sorted.begin() + b * kTile, sorted.begin() + (b + 1) * kTile);
  }
  Buffer<int> din(in), dsorted(n), dscanned(n), dsums(blocks);
  work<<<blocks, kThreads>>>(din, dsorted, dscanned, dsums);
  LAUNCHED();
  expect_same(dsorted.host(), sorted, "sorted");
  expect_same(dscanned.host(), scanned, "scanned");
  expect_same(dsums.host(), sums, "sums");
  digest(sorted);
  return finish();
}
