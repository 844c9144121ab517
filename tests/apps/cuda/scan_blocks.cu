// Exclusive scan of a long vector: Blelloch's up and down sweeps per block, a scan of the blocks' sums, then
// their addition.
#include "check.h"

constexpr int kBlock = 256;

__global__ void scan_block(const uint32_t* in, uint32_t* out, uint32_t* sums, int n) {
  __shared__ uint32_t tree[2 * kBlock];
  int t = threadIdx.x, base = blockIdx.x * 2 * kBlock;
  tree[2 * t] = base + 2 * t < n ? in[base + 2 * t] : 0;
  tree[2 * t + 1] = base + 2 * t + 1 < n ? in[base + 2 * t + 1] : 0;
  int offset = 1;
  for (int d = kBlock; d > 0; d >>= 1, offset <<= 1) {
    __syncthreads();
    if (t < d) tree[offset * (2 * t + 2) - 1] += tree[offset * (2 * t + 1) - 1];
  }
  if (t == 0) {
    if (sums) sums[blockIdx.x] = tree[2 * kBlock - 1];
    tree[2 * kBlock - 1] = 0;
  }
  for (int d = 1; d <= kBlock; d <<= 1) {
    offset >>= 1;
    __syncthreads();
    if (t < d) {
      int left = offset * (2 * t + 1) - 1, right = offset * (2 * t + 2) - 1;
      uint32_t kept = tree[left];
      tree[left] = tree[right];
      tree[right] += kept;
    }
  }
  __syncthreads();
  if (base + 2 * t < n) out[base + 2 * t] = tree[2 * t];
  if (base + 2 * t + 1 < n) out[base + 2 * t + 1] = tree[2 * t + 1];
}

__global__ void add(uint32_t* out, const uint32_t* sums, int n) {
  int i = blockIdx.x * 2 * kBlock + threadIdx.x;
  for (int k = 0; k < 2; k++, i += kBlock)
    if (i < n) out[i] += sums[blockIdx.x];
}

int main() {
  const int n = 9999, blocks = (n + 2 * kBlock - 1) / (2 * kBlock);
  std::vector<uint32_t> in = Random(6).integers(n, ~0u), expected(n);
  for (int i = 1; i < n; i++) expected[i] = expected[i - 1] + in[i - 1];
  Buffer<uint32_t> din(in), out(n), sums(blocks), before(blocks);
  scan_block<<<blocks, kBlock>>>(din, out, sums, n);
  scan_block<<<1, kBlock>>>(sums, before, nullptr, blocks);
  add<<<blocks, kBlock>>>(out, before, n);
  LAUNCHED();
  expect_same(out.host(), expected);
  digest(out.host());
  return finish();
}
