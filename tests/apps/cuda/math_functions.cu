// CUDA's single precision functions, within the ulps documented in its manual, and the intrinsics, within
// wider bounds; compared with the host in double precision.
#include "check.h"

#include <functional>

#define FUNCTIONS(F)                                                                                      \
  F(sinf, sin, -100, 100, 2)                                                                              \
  F(cosf, cos, -100, 100, 2) F(tanf, tan, -100, 100, 4) F(asinf, asin, -1, 1, 2) F(acosf, acos, -1, 1, 2) \
      F(atanf, atan, -50, 50, 2) F(sinhf, sinh, -10, 10, 3) F(coshf, cosh, -10, 10, 2)                    \
          F(tanhf, tanh, -10, 10, 2) F(asinhf, asinh, -100, 100, 3) F(acoshf, acosh, 1, 100, 4)           \
              F(atanhf, atanh, -0.99, 0.99, 3) F(expf, exp, -80, 80, 2) F(exp2f, exp2, -100, 100, 2)      \
                  F(exp10f, exp10, -30, 30, 2) F(expm1f, expm1, -10, 10, 1) F(logf, log, 0.001, 1000, 1)  \
                      F(log2f, log2, 0.001, 1000, 1) F(log10f, log10, 0.001, 1000, 2)                     \
                          F(log1pf, log1p, -0.9, 100, 1) F(sqrtf, sqrt, 0, 1000, 0.5)                     \
                              F(rsqrtf, 1 / sqrt, 0.001, 1000, 2) F(cbrtf, cbrt, -100, 100, 1)            \
                                  F(rcbrtf, 1 / cbrt, 0.01, 100, 1) F(erff, erf, -3, 3, 2)                \
                                      F(erfcf, erfc, -3, 8, 4) F(lgammaf, lgamma, 3, 30, 6)               \
                                          F(tgammaf, tgamma, 1, 10, 5) F(j0f, j0, 0, 1, 9)                \
                                              F(j1f, j1, 0.5, 1, 9) F(sinpif, sin_pi, -10, 10, 1)         \
                                                  F(cospif, cos_pi, -10, 10, 1)

static double sin_pi(double x) { return std::sin(M_PI * std::fmod(x, 2)); }
static double cos_pi(double x) { return std::cos(M_PI * std::fmod(x, 2)); }

enum {
#define NAME(device, host, low, high, ulps) k_##device,
  FUNCTIONS(NAME) kCount
};

__global__ void compute(const float* in, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
#define CASE(device, host, low, high, ulps) out[k_##device * n + i] = device(in[k_##device * n + i]);
  FUNCTIONS(CASE)
}

__global__ void two(const float* a, const float* b, float* out, int n) {
  int i = threadIdx.x;
  float x = fabsf(a[i]), y = b[i];
  out[i] = powf(x, y);
  out[n + i] = atan2f(a[i], y);
  out[2 * n + i] = hypotf(x, y);
  out[3 * n + i] = fmodf(a[i], y);
  out[4 * n + i] = __powf(x, 1.5f);
  out[5 * n + i] = __sinf(a[i] * 0.1f);
  out[6 * n + i] = __expf(y);
  out[7 * n + i] = __fdividef(x, y);
  out[8 * n + i] = ldexpf(x, 5) + scalbnf(x, -3);
  out[9 * n + i] = remainderf(a[i], y);
  int exponent;
  out[10 * n + i] = frexpf(x, &exponent) + exponent;
  out[11 * n + i] = x / y;
}

static double ulps(double got, double exact) {
  if (exact == 0) return got == 0 ? 0 : 1e9;
  float below = std::fabs(static_cast<float>(exact));
  double unit = std::nextafter(below, INFINITY) - static_cast<double>(below);
  return std::fabs(got - exact) / unit;
}

int main() {
  const int n = 128;
  Random random(44);
  std::vector<float> in;
#define INPUT(device, host, low, high, ulps) \
  for (int i = 0; i < n; i++) in.push_back(random.uniform(low, high));
  FUNCTIONS(INPUT)
  Buffer<float> din(in), out(in.size());
  compute<<<2, 64>>>(din, out, n);
  LAUNCHED();
  std::vector<float> got = out.host();
#define CHECK(device, host, low, high, limit)                                         \
  for (int i = 0; i < n; i++) {                                                       \
    float x = in[k_##device * n + i], y = got[k_##device * n + i];                    \
    double exact = host(static_cast<double>(x));                                      \
    if (!(ulps(y, exact) <= limit + 0.51))                                            \
      fail(#device "(%a): %a instead of %a: %.2f ulps", x, y, exact, ulps(y, exact)); \
  }
  FUNCTIONS(CHECK)
  digest(got);
  std::vector<float> a = random.floats(n, -20, 20), b = random.floats(n, 0.5, 4);
  Buffer<float> da(a), db(b), both(12 * n);
  two<<<1, n>>>(da, db, both, n);
  LAUNCHED();
  got = both.host();
  for (int i = 0; i < n; i++) {
    double x = std::fabs(a[i]), y = b[i];
    auto close = [&](int which, double exact, double limit) {
      if (!(ulps(got[which * n + i], exact) <= limit))
        fail("function %d of %a, %a: %a instead of %a", which, a[i], b[i], got[which * n + i], exact);
    };
    close(0, std::pow(x, y), 8.5);
    close(1, std::atan2(a[i], y), 3.5);
    close(2, std::hypot(x, y), 2.5);
    close(3, std::fmod(double(a[i]), y), 0);
    close(7, x / y, 2.5);
    close(8, x * 32 + x / 8, 0.51);
    close(9, std::remainder(double(a[i]), y), 0);
    close(11, x / y, 0.5);
    int exponent;
    double fraction = std::frexp(x, &exponent);
    close(10, fraction + exponent, 0.51);
    EXPECT(std::fabs(got[4 * n + i] - std::pow(x, 1.5)) < 1e-4 * std::pow(x, 1.5) + 1e-6);
    EXPECT(std::fabs(got[5 * n + i] - std::sin(a[i] * 0.1f)) < 1e-6);
    EXPECT(std::fabs(got[6 * n + i] - std::exp(y)) < 1e-5 * std::exp(y));
  }
  digest(got);
  return finish();
}
