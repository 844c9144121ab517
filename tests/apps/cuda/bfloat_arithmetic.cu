// nvcc: -arch=sm_80
// bf16: conversions and fused multiply-add, single and packed in pairs.
#include "check.h"

#include <cuda_bf16.h>

__global__ void compute(const __nv_bfloat16* a, const __nv_bfloat16* b, const __nv_bfloat16* c,
                        __nv_bfloat16* out, __nv_bfloat162* pairs, float* wide, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  out[i] = __hadd(a[i], b[i]);
  out[n + i] = __hmul(a[i], b[i]);
  out[2 * n + i] = __hfma(a[i], b[i], c[i]);
  out[3 * n + i] = __float2bfloat16(__bfloat162float(a[i]) / 3.0f);
  out[4 * n + i] = __hmax(a[i], b[i]);
  wide[i] = __bfloat162float(a[i]) * __bfloat162float(b[i]);
  if (i % 2 == 0) {
    auto x = *reinterpret_cast<const __nv_bfloat162*>(a + i),
         y = *reinterpret_cast<const __nv_bfloat162*>(b + i);
    pairs[i / 2] = __hfma2(x, y, x);
  }
}

static uint16_t bits(__nv_bfloat16 value) { return static_cast<__nv_bfloat16_raw>(value).x; }
static __nv_bfloat16 rounded(double exact) { return __double2bfloat16(exact); }

int main() {
  const int n = 1024;
  Random random(20);
  std::vector<__nv_bfloat16> a(n), b(n), c(n), expected(5 * n), pairs(n);
  std::vector<float> wide(n);
  for (auto* v : {&a, &b, &c})
    for (auto& value : *v) value = __float2bfloat16(random.uniform(-100, 100));
  for (int i = 0; i < n; i++) {
    double x = __bfloat162float(a[i]), y = __bfloat162float(b[i]), z = __bfloat162float(c[i]);
    expected[i] = rounded(x + y);
    expected[n + i] = rounded(x * y);
    expected[2 * n + i] = rounded(x * y + z);
    expected[3 * n + i] = __float2bfloat16(float(x) / 3.0f);
    expected[4 * n + i] = x > y ? a[i] : b[i];
    pairs[i] = rounded(x * y + x);
    wide[i] = float(x * y);
  }
  Buffer<__nv_bfloat16> da(a), db(b), dc(c), out(5 * n);
  Buffer<__nv_bfloat162> dp(n / 2);
  Buffer<float> dw(n);
  compute<<<n / 128, 128>>>(da, db, dc, out, dp, dw, n);
  LAUNCHED();
  std::vector<__nv_bfloat16> got = out.host(), got_pairs(n);
  CALL(cudaMemcpy(got_pairs.data(), dp.data, n * sizeof(__nv_bfloat16), cudaMemcpyDeviceToHost));
  for (int i = 0; i < 5 * n; i++)
    if (bits(got[i]) != bits(expected[i]))
      fail("operation %d, %d: %04x instead of %04x", i / n, i % n, bits(got[i]), bits(expected[i]));
  for (int i = 0; i < n; i++)
    if (bits(got_pairs[i]) != bits(pairs[i]))
      fail("pair %d: %04x instead of %04x", i, bits(got_pairs[i]), bits(pairs[i]));
  expect_same(dw.host(), wide);
  for (auto value : got) digest(bits(value));
  return finish();
}
