// run: ways=static
// Warps of a block read shared memory that other warps write: `right` has a barrier in between, `wrong` has
// none.
#include "../check.h"

template <bool Right>
__global__ void reverse(const int* in, int* out) {
  __shared__ int room[256];
  int i = blockIdx.x * 256 + threadIdx.x;
  room[threadIdx.x] = in[i];
  if (Right) __syncthreads();
  out[i] = room[255 - threadIdx.x];
}

int main(int, char** arguments) {
  bool right = std::strcmp(arguments[1], "right") == 0;
  const int blocks = 8, n = blocks * 256;
  std::vector<int> in(n), expected(n);
  for (int round = 0; round < 10; round++) {
    for (int i = 0; i < n; i++) in[i] = i * 7 + round + 1;
    for (int i = 0; i < n; i++) expected[i] = in[i / 256 * 256 + 255 - i % 256];
    Buffer<int> din(in), out(n);
    if (right)
      reverse<true><<<blocks, 256>>>(din, out);
    else
      reverse<false><<<blocks, 256>>>(din, out);
    LAUNCHED();
    expect_same(out.host(), expected);
  }
  return finish();
}
