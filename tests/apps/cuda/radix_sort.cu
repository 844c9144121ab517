// A hand-written stable radix sort, least significant digit first, 4 bits per pass: count per block, scan,
// scatter by ballots.
#include "check.h"

#include <algorithm>

constexpr int kBlock = 128, kWarps = kBlock / 32;

__global__ void count(const uint32_t* keys, int n, int shift, int* counts) {
  __shared__ int digits[16];
  if (threadIdx.x < 16) digits[threadIdx.x] = 0;
  __syncthreads();
  int i = blockIdx.x * kBlock + threadIdx.x;
  if (i < n) atomicAdd(&digits[keys[i] >> shift & 15], 1);
  __syncthreads();
  if (threadIdx.x < 16) counts[threadIdx.x * gridDim.x + blockIdx.x] = digits[threadIdx.x];
}

__global__ void scan(int* counts, int n) {  // few numbers: one thread is enough
  int sum = 0;
  for (int i = 0; i < n; i++) {
    int kept = counts[i];
    counts[i] = sum;
    sum += kept;
  }
}

__global__ void scatter(const uint32_t* keys, const uint32_t* values, uint32_t* to_keys, uint32_t* to_values,
                        int n, int shift, const int* counts) {
  __shared__ int before[kWarps][16];
  int i = blockIdx.x * kBlock + threadIdx.x, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  uint32_t key = i < n ? keys[i] : 0;
  int digit = key >> shift & 15, rank = 0;
  for (int d = 0; d < 16; d++) {
    unsigned same = __ballot_sync(~0u, i < n && digit == d);
    if (digit == d) rank = __popc(same & ((1u << lane) - 1));
    if (lane == 0) before[warp][d] = __popc(same);
  }
  __syncthreads();
  if (i >= n) return;
  for (int w = 0; w < warp; w++) rank += before[w][digit];
  int to = counts[digit * gridDim.x + blockIdx.x] + rank;
  to_keys[to] = key;
  to_values[to] = values[i];
}

int main() {
  const int n = 3000, blocks = (n + kBlock - 1) / kBlock;
  std::vector<uint32_t> keys = Random(10).integers(n, 1u << 16), values(n);
  std::vector<std::pair<uint32_t, uint32_t>> expected;
  for (int i = 0; i < n; i++) {
    keys[i] %= 5000;  // many equal keys, so that the values show whether the sort is stable
    values[i] = i;
    expected.push_back({keys[i], i});
  }
  std::stable_sort(expected.begin(), expected.end(), [](auto& a, auto& b) { return a.first < b.first; });
  Buffer<uint32_t> k0(keys), v0(values), k1(n), v1(n);
  Buffer<int> counts(16 * blocks);
  for (int shift = 0; shift < 16; shift += 8) {
    count<<<blocks, kBlock>>>(k0, n, shift, counts);
    scan<<<1, 1>>>(counts, 16 * blocks);
    scatter<<<blocks, kBlock>>>(k0, v0, k1, v1, n, shift, counts);
    count<<<blocks, kBlock>>>(k1, n, shift + 4, counts);
    scan<<<1, 1>>>(counts, 16 * blocks);
    scatter<<<blocks, kBlock>>>(k1, v1, k0, v0, n, shift + 4, counts);
  }
  LAUNCHED();
  std::vector<uint32_t> sorted_keys, sorted_values;
  for (auto& [key, value] : expected) sorted_keys.push_back(key), sorted_values.push_back(value);
  expect_same(k0.host(), sorted_keys, "keys");
  expect_same(v0.host(), sorted_values, "values");
  digest(k0.host());
  digest(v0.host());
  return finish();
}
