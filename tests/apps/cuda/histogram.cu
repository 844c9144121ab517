// Histograms by global atomics and by shared atomics that are then merged.
#include "check.h"

constexpr int kBins = 64;

__global__ void global_histogram(const uint32_t* values, int n, unsigned* bins) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x)
    atomicAdd(&bins[values[i] % kBins], 1u);
}

__global__ void shared_histogram(const uint32_t* values, int n, unsigned* bins) {
  __shared__ unsigned mine[kBins];
  for (int b = threadIdx.x; b < kBins; b += blockDim.x) mine[b] = 0;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x)
    atomicAdd(&mine[values[i] % kBins], 1u);
  __syncthreads();
  for (int b = threadIdx.x; b < kBins; b += blockDim.x) atomicAdd(&bins[b], mine[b]);
}

int main() {
  const int n = 20000;
  std::vector<uint32_t> values = Random(8).integers(n, 1u << 30);
  for (int i = 0; i < n / 4; i++) values[i] = 5;  // high contention on one bin
  std::vector<unsigned> expected(kBins);
  for (uint32_t value : values) expected[value % kBins]++;
  Buffer<uint32_t> dv(values);
  Buffer<unsigned> one(kBins), other(kBins);
  one.zero();
  other.zero();
  global_histogram<<<9, 128>>>(dv, n, one);
  shared_histogram<<<9, 128>>>(dv, n, other);
  LAUNCHED();
  expect_same(one.host(), expected, "global");
  expect_same(other.host(), expected, "shared");
  digest(one.host());
  return finish();
}
