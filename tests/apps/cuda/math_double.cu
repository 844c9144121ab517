// CUDA's double precision functions compared with the host's long double functions, within the documented
// ulps.
#include "check.h"

#define FUNCTIONS(F)                                                                                       \
  F(sin, -100, 100, 2)                                                                                     \
  F(cos, -100, 100, 2) F(tan, -10, 10, 2) F(asin, -1, 1, 2) F(acos, -1, 1, 2) F(atan, -50, 50, 2)          \
      F(sinh, -10, 10, 2) F(cosh, -10, 10, 1) F(tanh, -3, 3, 2) F(exp, -300, 300, 1) F(exp2, -300, 300, 1) \
          F(expm1, -5, 5, 1) F(log, 0.001, 1000, 1) F(log2, 0.001, 1000, 1) F(log10, 0.001, 1000, 1)       \
              F(log1p, -0.9, 10, 1) F(cbrt, -100, 100, 1) F(erf, -3, 3, 2) F(erfc, -3, 8, 5)               \
                  F(lgamma, 3, 30, 4) F(tgamma, 1, 10, 10) F(asinh, -50, 50, 3) F(acosh, 1, 50, 3)         \
                      F(atanh, -0.9, 0.9, 2)

enum {
#define NAME(f, low, high, ulps) k_##f,
  FUNCTIONS(NAME) kCount
};

__global__ void compute(const double* in, double* out, int n) {
  int i = threadIdx.x;
#define CASE(f, low, high, ulps) out[k_##f * n + i] = f(in[k_##f * n + i]);
  FUNCTIONS(CASE)
}

__global__ void two(const double* a, const double* b, double* out, int n) {
  int i = threadIdx.x;
  out[i] = pow(fabs(a[i]), b[i]);
  out[n + i] = atan2(a[i], b[i]);
  out[2 * n + i] = hypot(a[i], b[i]);
  out[3 * n + i] = rsqrt(b[i]);
}

static double ulps(double got, long double exact) {
  double below = std::fabs(static_cast<double>(exact));
  return static_cast<double>(std::fabs(got - exact) / (std::nextafter(below, INFINITY) - below));
}

int main() {
  const int n = 64;
  Random random(45);
  std::vector<double> in;
#define INPUT(f, low, high, ulps) \
  for (int i = 0; i < n; i++) in.push_back(random.uniform(low, high) * (1 - 1e-10 * random.uniform(0, 1)));
  FUNCTIONS(INPUT)
  for (int i = 0; i < n; i++) in[k_acosh * n + i] = std::max(1.0, in[k_acosh * n + i]);
  Buffer<double> din(in), out(in.size());
  compute<<<1, n>>>(din, out, n);
  LAUNCHED();
  std::vector<double> got = out.host();
#define CHECK(f, low, high, limit)                                                \
  for (int i = 0; i < n; i++) {                                                   \
    double x = in[k_##f * n + i], y = got[k_##f * n + i];                         \
    long double exact = f##l(static_cast<long double>(x));                        \
    if (!(ulps(y, exact) <= limit + 0.51))                                        \
      fail(#f "(%a): %a instead of %La: %.2f ulps", x, y, exact, ulps(y, exact)); \
  }
  FUNCTIONS(CHECK)
  digest(got);
  std::vector<double> a(n), b(n);
  for (int i = 0; i < n; i++) a[i] = random.uniform(-20, 20), b[i] = random.uniform(0.5, 4) + 1e-9;
  Buffer<double> da(a), db(b), both(4 * n);
  two<<<1, n>>>(da, db, both, n);
  LAUNCHED();
  got = both.host();
  for (int i = 0; i < n; i++) {
    EXPECT(ulps(got[i], powl(std::fabs(a[i]), b[i])) <= 2.5);
    EXPECT(ulps(got[n + i], atan2l(a[i], b[i])) <= 2.5);
    EXPECT(ulps(got[2 * n + i], hypotl(a[i], b[i])) <= 2.5);
    EXPECT(ulps(got[3 * n + i], 1 / sqrtl(b[i])) <= 1.5);
  }
  digest(got);
  return finish();
}
