// 128-bit integers: nvcc generates the division itself, with code that adds the carry flag of subtractions.
#include "check.h"

using Wide = unsigned __int128;
using SignedWide = __int128;
constexpr int kOperations = 9, kThreads = 64;

__host__ __device__ void compute(int t, Wide* out) {
  Wide x = (Wide(t) << 100) | Wide(0xdeadbeefcafebabeull) * (t + 1);
  x = x * x + t;
  SignedWide y = -SignedWide(x);
  out[0] = x;
  out[1] = x / Wide(t * 1234567891234ull + 3);
  out[2] = x % Wide(t + 7);
  out[3] = x / ((Wide(t) << 70) + 9);
  out[4] = Wide(y / (t + 1));
  out[5] = Wide(y % SignedWide(t * 77777 + 5));
  out[6] = x >> t;
  out[7] = Wide(y >> t);
  out[8] = x << t;
}

__global__ void all(Wide* out) { compute(threadIdx.x, out + threadIdx.x * kOperations); }

int main() {
  std::vector<Wide> expected(kThreads * kOperations);
  for (int t = 0; t < kThreads; t++) compute(t, &expected[t * kOperations]);
  Buffer<uint64_t> out(std::vector<uint64_t>(2 * expected.size()));
  all<<<1, kThreads>>>(reinterpret_cast<Wide*>(static_cast<uint64_t*>(out)));
  LAUNCHED();
  std::vector<uint64_t> halves;
  for (Wide value : expected) {
    halves.push_back(uint64_t(value));
    halves.push_back(uint64_t(value >> 64));
  }
  expect_same(out.host(), halves);
  digest(out.host());
  return finish();
}
