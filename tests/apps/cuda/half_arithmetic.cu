// f16: every conversion, arithmetic on single and packed values, compared with exact results rounded to
// nearest even.
#include "check.h"

#include <cuda_fp16.h>

__global__ void compute(const __half* a, const __half* b, const __half* c, __half* out, __half2* pairs,
                        int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  out[i] = a[i] + b[i];
  out[n + i] = a[i] - b[i];
  out[2 * n + i] = a[i] * b[i];
  out[3 * n + i] = __hfma(a[i], b[i], c[i]);
  out[4 * n + i] = __float2half_rz(__half2float(a[i]) * 1.001f);
  out[5 * n + i] = __hneg(__habs(a[i]));
  out[6 * n + i] = __hlt(a[i], b[i]) ? a[i] : c[i];
  out[7 * n + i] = __int2half_rn(__half2int_rn(__hmul(a[i], __float2half(100.0f))));
  if (i % 2 == 0) {
    __half2 x = *reinterpret_cast<const __half2*>(a + i), y = *reinterpret_cast<const __half2*>(b + i);
    pairs[i / 2] = __hfma2(x, y, __hadd2(x, y));
  }
}

static __half rounded(double exact) { return __double2half(exact); }

int main() {
  const int n = 2048;
  Random random(19);
  std::vector<__half> a(n), b(n), c(n);
  for (auto* v : {&a, &b, &c})
    for (__half& value : *v)
      value = __float2half(random.uniform(-8, 8) * (random.below(4) ? 1.0f : 1e-5f));  // denormals too
  std::vector<__half> expected(8 * n), pairs(n);
  for (int i = 0; i < n; i++) {
    double x = __half2float(a[i]), y = __half2float(b[i]), z = __half2float(c[i]);
    expected[i] = rounded(x + y);
    expected[n + i] = rounded(x - y);
    expected[2 * n + i] = rounded(x * y);
    expected[3 * n + i] = rounded(x * y + z);  // exact in double: 22 + 11 bits fit into 53
    expected[4 * n + i] = __float2half_rz(float(x) * 1.001f);
    expected[5 * n + i] = rounded(-std::fabs(x));
    expected[6 * n + i] = x < y ? a[i] : c[i];
    expected[7 * n + i] = rounded(static_cast<int>(std::nearbyint(__half2float(rounded(x * 100)))));
    pairs[i] = rounded(x * y + __half2float(rounded(x + y)));
  }
  Buffer<__half> da(a), db(b), dc(c), out(8 * n);
  Buffer<__half2> dp(n / 2);
  compute<<<n / 128, 128>>>(da, db, dc, out, dp, n);
  LAUNCHED();
  std::vector<__half> got = out.host(), got_pairs(n);
  CALL(cudaMemcpy(got_pairs.data(), dp.data, n * sizeof(__half), cudaMemcpyDeviceToHost));
  auto bits = [](__half h) { return static_cast<__half_raw>(h).x; };
  for (int i = 0; i < 8 * n; i++)
    if (bits(got[i]) != bits(expected[i]))
      fail("operation %d, %d: %04x instead of %04x", i / n, i % n, bits(got[i]), bits(expected[i]));
  for (int i = 0; i < n; i++)
    if (bits(got_pairs[i]) != bits(pairs[i]))
      fail("pair %d: %04x instead of %04x", i, bits(got_pairs[i]), bits(pairs[i]));
  for (__half h : got) digest(bits(h));
  return finish();
}
