// f64 by IEEE 754: fused multiply-add, division, square root, rounding modes, conversions, infinities,
// denormals.
#include "check.h"

#include <cfenv>

__global__ void compute(const double* a, const double* b, double* out, long long* whole, int n) {
  int i = threadIdx.x;
  double x = a[i], y = b[i];
  double* o = out + 13 * i;
  o[0] = fma(x, y, x);
  o[1] = x / y;
  o[2] = sqrt(fabs(x));
  o[3] = __dadd_ru(x, y);
  o[4] = __dadd_rd(x, y);
  o[5] = __dmul_rz(x, y);
  o[6] = __ddiv_ru(x, y);
  o[7] = __dsqrt_rd(fabs(y));
  o[8] = fmin(x, y) + fmax(x, y);
  o[9] = rint(x) + trunc(y);
  o[10] = floor(x) - ceil(y);
  o[11] = static_cast<float>(x);
  o[12] = fmod(x, y);
  whole[3 * i] = __double2ll_rn(x);
  whole[3 * i + 1] = static_cast<long long>(y);
  whole[3 * i + 2] = __double2int_ru(x) + (isnan(x) + 2 * isinf(y) + 4 * signbit(x)) * 1000000ll;
}

template <class F>
double rounded(int mode, F f) {
  std::fesetround(mode);
  volatile double result = f();
  std::fesetround(FE_TONEAREST);
  return result;
}

int main() {
  const int n = 128;
  Random random(42);
  std::vector<double> a(n), b(n);
  for (int i = 0; i < n; i++) {
    a[i] = random.uniform(-1000, 1000) + 1e-9 * random.uniform();
    b[i] = random.uniform(-50, 50) * (1 + 1e-12 * random.uniform());
  }
  a[0] = 0, b[0] = -3;
  a[1] = 1e-310, b[1] = 3;  // a denormal
  a[2] = 1e6, b[2] = INFINITY;
  a[3] = -0.5, b[3] = 1e-300;
  a[4] = 2.5, b[4] = 0.5;
  std::vector<double> expected(13 * n);
  std::vector<long long> whole(3 * n);
  for (int i = 0; i < n; i++) {
    volatile double x = a[i], y = b[i];
    double* o = &expected[13 * i];
    o[0] = std::fma(x, y, x);
    o[1] = x / y;
    o[2] = std::sqrt(std::fabs(x));
    o[3] = rounded(FE_UPWARD, [&] { return x + y; });
    o[4] = rounded(FE_DOWNWARD, [&] { return x + y; });
    o[5] = rounded(FE_TOWARDZERO, [&] { return x * y; });
    o[6] = rounded(FE_UPWARD, [&] { return x / y; });
    o[7] = rounded(FE_DOWNWARD, [&] { return std::sqrt(std::fabs(y)); });
    o[8] = std::fmin(x, y) + std::fmax(x, y);
    o[9] = std::rint(x) + std::trunc(y);
    o[10] = std::floor(x) - std::ceil(y);
    o[11] = static_cast<float>(x);
    o[12] = std::fmod(x, y);
    whole[3 * i] = std::llrint(x);
    whole[3 * i + 1] = std::isinf(y) ? INT64_MAX : static_cast<long long>(y);  // the device saturates
    whole[3 * i + 2] =
        int(std::ceil(x)) + (std::isnan(x) + 2 * std::isinf(y) + 4 * std::signbit(x)) * 1000000ll;
  }
  Buffer<double> da(a), db(b), out(13 * n);
  Buffer<long long> dw(3 * n);
  compute<<<1, n>>>(da, db, out, dw, n);
  LAUNCHED();
  std::vector<double> got = out.host();
  for (int i = 0; i < 13 * n; i++)
    if (!(got[i] == expected[i] || (std::isnan(got[i]) && std::isnan(expected[i]))))
      fail("operation %d of %a, %a: %a instead of %a", i % 13, a[i / 13], b[i / 13], got[i], expected[i]);
  expect_same(dw.host(), whole, "integers");
  digest(dw.host());
  digest(got);
  return finish();
}
