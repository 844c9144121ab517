// Votes, matches and the active mask for whole warps, for parts of them, and for divergent lanes.
// nvcc: -arch=sm_80
#include "check.h"

__global__ void votes(const int* in, unsigned* out, int n) {
  int i = threadIdx.x;
  out[i] = __ballot_sync(~0u, in[i] > 50);
  out[n + i] = __any_sync(~0u, in[i] == 7) * 2 + __all_sync(~0u, in[i] >= 0);
  out[2 * n + i] = __match_any_sync(~0u, in[i] % 4);
  int same;
  out[3 * n + i] = __match_all_sync(~0u, i / 64, &same) * 2u + same;
  out[4 * n + i] = __reduce_add_sync(~0u, in[i]) * 1000u + __reduce_max_sync(~0u, in[i]);
  out[5 * n + i] = __reduce_xor_sync(~0u, static_cast<unsigned>(in[i]));
  unsigned odd = out[8 * n + i];  // odd and even lanes diverge: each branch names its own lanes
  if (in[i] % 2) {
    unsigned active = __activemask();  // CUDA guarantees no more than this
    if (!(active >> i % 32 & 1) || (active & ~odd)) out[i] = ~0u;
    out[6 * n + i] = __ballot_sync(odd, in[i] > 50);
    out[7 * n + i] = __shfl_sync(odd, in[i], __ffs(odd) - 1);
  } else {
    out[6 * n + i] = __popc(__ballot_sync(~odd, in[i] > 20));
    out[7 * n + i] = __shfl_xor_sync(~odd, in[i], 0);
  }
}

__global__ void odd_lanes(const int* in, unsigned* out) {
  out[threadIdx.x] = __ballot_sync(~0u, in[threadIdx.x] % 2);
}

int main() {
  const int n = 128;
  std::vector<uint32_t> numbers = Random(40).integers(n, 100);
  std::vector<int> in(numbers.begin(), numbers.end());
  Buffer<int> din(in);
  Buffer<unsigned> out(9 * n);
  odd_lanes<<<1, n>>>(din, out + 8 * n);
  votes<<<1, n>>>(din, out, n);
  LAUNCHED();
  std::vector<unsigned> expected(9 * n);
  for (int i = 0; i < n; i++) {
    unsigned more = 0, any = 0, all = 1, match = 0, sum = 0, top = 0, exclusive = 0, odd = 0, even_more = 0;
    int first = i / 32 * 32, first_odd = -1;
    for (int j = first; j < first + 32; j++) {
      unsigned bit = 1u << (j - first);
      if (in[j] > 50) more |= bit;
      any |= in[j] == 7;
      all &= in[j] >= 0;
      if (in[j] % 4 == in[i] % 4) match |= bit;
      sum += in[j];
      top = std::max<unsigned>(top, in[j]);
      exclusive ^= in[j];
      if (in[j] % 2) {
        odd |= bit;
        if (first_odd < 0) first_odd = in[j];
      } else if (in[j] > 20)
        even_more++;
    }
    expected[i] = more;
    expected[n + i] = any * 2 + all;
    expected[2 * n + i] = match;
    expected[3 * n + i] = ~0u * 2u + 1;
    expected[4 * n + i] = sum * 1000 + top;
    expected[5 * n + i] = exclusive;
    expected[6 * n + i] = in[i] % 2 ? more & odd : even_more;
    expected[7 * n + i] = in[i] % 2 ? first_odd : in[i];
    expected[8 * n + i] = odd;
  }
  expect_same(out.host(), expected);
  digest(expected);
  return finish();
}
