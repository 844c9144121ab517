// curand_kernel.h: Philox and XORWOW give the same numbers on the device as on the host (Philox's round is
// implemented here), moments of uniform and normal numbers, subsequences that differ.
#include "check.h"

#include <curand_kernel.h>

__global__ void philox(unsigned* raw, float* uniform, float* normal, int each) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  curandStatePhilox4_32_10_t state;
  curand_init(1234, i, 0, &state);
  for (int k = 0; k < each; k++) {
    uint4 four = curand4(&state);
    *reinterpret_cast<uint4*>(&raw[(i * each + k) * 4]) = four;
  }
  for (int k = 0; k < each; k++) {
    uniform[i * each + k] = curand_uniform(&state);
    normal[i * each + k] = curand_normal(&state);
  }
}

__global__ void xorwow(curandState* states, float* out, int each, bool first) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (first) curand_init(99, i, 0, &states[i]);
  curandState state = states[i];
  for (int k = 0; k < each; k++) out[i * each + k] = curand_uniform(&state);
  states[i] = state;
}

static void philox_on_host(uint32_t counter[4], uint64_t seed, uint32_t out[4]) {
  uint32_t c[4] = {counter[0], counter[1], counter[2], counter[3]}, k0 = uint32_t(seed),
           k1 = uint32_t(seed >> 32);
  for (int round = 0; round < 10; round++) {
    uint64_t p0 = uint64_t{0xD2511F53} * c[0], p1 = uint64_t{0xCD9E8D57} * c[2];
    uint32_t next[4] = {uint32_t(p1 >> 32) ^ c[1] ^ k0, uint32_t(p1), uint32_t(p0 >> 32) ^ c[3] ^ k1,
                        uint32_t(p0)};
    std::memcpy(c, next, sizeof c);
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  std::memcpy(out, c, sizeof c);
}

static void check_moments(const std::vector<float>& values, double mean, double variance, const char* what) {
  double sum = 0, squares = 0;
  for (float v : values) sum += v, squares += double(v) * v;
  sum /= values.size();
  squares = squares / values.size() - sum * sum;
  if (std::fabs(sum - mean) > 0.06 || std::fabs(squares - variance) > 0.1)
    fail("%s: mean %g, variance %g", what, sum, squares);
}

int main() {
  const int n = 128, each = 8;
  Buffer<unsigned> raw(n * each * 4);
  Buffer<float> uniform(n * each), normal(n * each), one(n * each), two(n * each);
  Buffer<curandState> states(n);
  philox<<<2, n / 2>>>(raw, uniform, normal, each);
  xorwow<<<2, n / 2>>>(states, one, each, true);
  xorwow<<<2, n / 2>>>(states, two, each, false);
  LAUNCHED();
  std::vector<unsigned> got = raw.host();
  for (int i = 0; i < n; i++)
    for (int k = 0; k < each; k++) {
      uint32_t counter[4] = {uint32_t(k), 0, uint32_t(i), 0}, expected[4];
      philox_on_host(counter, 1234, expected);
      for (int e = 0; e < 4; e++) EXPECT(got[(i * each + k) * 4 + e] == expected[e]);
    }
  check_moments(uniform.host(), 0.5, 1 / 12.0, "uniform");
  check_moments(normal.host(), 0, 1, "normal");
  check_moments(one.host(), 0.5, 1 / 12.0, "xorwow");
  std::vector<float> a = one.host(), b = two.host();
  for (size_t i = 0; i < a.size(); i++)
    EXPECT(a[i] > 0 && a[i] <= 1 && a[i] != b[i] && a[i] != a[(i + each) % a.size()]);
  digest(got);
  digest(a);
  digest(b);
  return finish();
}
