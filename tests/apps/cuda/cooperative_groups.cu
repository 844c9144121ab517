// Cooperative groups: tiles of several sizes, coalesced groups, partitions, group reductions and scans.
#include "check.h"

#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>

namespace cg = cooperative_groups;

__global__ void groups(const int* in, int* out, int n) {
  cg::thread_block block = cg::this_thread_block();
  int i = block.thread_rank();
  auto tile8 = cg::tiled_partition<8>(block);
  auto tile32 = cg::tiled_partition<32>(block);
  out[i] = cg::reduce(tile8, in[i], cg::plus<int>());
  out[n + i] = cg::reduce(tile32, in[i], cg::greater<int>());
  out[2 * n + i] = cg::inclusive_scan(tile32, in[i]);
  out[3 * n + i] = tile8.shfl(in[i], 3) + tile8.shfl_xor(in[i], 1) + int(tile8.meta_group_rank());
  out[4 * n + i] = tile8.any(in[i] > 90) * 2 + tile8.all(in[i] > 10);
  out[5 * n + i] = -1;
  if (in[i] % 3 == 0) {
    cg::coalesced_group active = cg::coalesced_threads();
    out[5 * n + i] = active.thread_rank() * 100 + active.size();
  }
  tile32.sync();
  auto parity = cg::binary_partition(tile32, in[i] % 2 == 0);
  out[6 * n + i] = parity.size() * 1000 + parity.thread_rank();
  block.sync();
}

int main() {
  const int n = 96;
  std::vector<uint32_t> numbers = Random(31).integers(n, 100);
  std::vector<int> in(numbers.begin(), numbers.end()), expected(7 * n);
  for (int i = 0; i < n; i++) {
    int t8 = i / 8 * 8, t32 = i / 32 * 32, any = 0, all = 1, rank = 0, size = 0, prank = 0, psize = 0;
    for (int j = t8; j < t8 + 8; j++) {
      expected[i] += in[j];
      any |= in[j] > 90;
      all &= in[j] > 10;
    }
    for (int j = t32; j < t32 + 32; j++) {
      expected[n + i] = std::max(expected[n + i], in[j]);
      if (j <= i) expected[2 * n + i] += in[j];
      if (in[j] % 3 == 0) size++, rank += j < i;
      if (in[j] % 2 == in[i] % 2) psize++, prank += j < i;
    }
    expected[3 * n + i] = in[t8 + 3] + in[i ^ 1] + i / 8;
    expected[4 * n + i] = any * 2 + all;
    expected[5 * n + i] = in[i] % 3 ? -1 : rank * 100 + size;
    expected[6 * n + i] = psize * 1000 + prank;
  }
  Buffer<int> din(in), out(7 * n);
  groups<<<1, n>>>(din, out, n);
  LAUNCHED();
  expect_same(out.host(), expected);
  digest(out.host());
  return finish();
}
