// Templates, variadic ones, functors and lambdas as kernel arguments, large arguments by value.
// nvcc: -arch=sm_75 --extended-lambda -std=c++20
#include "check.h"

template <class Function, class... Arguments>
__global__ void apply(Function function, double* out, int n, Arguments... arguments) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = function(i, arguments...);
}

struct Polynomial {
  double coefficients[40];
  int degree;
  __host__ __device__ double operator()(int x) const {
    double y = 0;
    for (int i = degree; i >= 0; i--) y = y * (x % 3) + coefficients[i];
    return y;
  }
};

template <int N>
struct Factorial {
  static constexpr int value = N * Factorial<N - 1>::value;
};
template <>
struct Factorial<0> {
  static constexpr int value = 1;
};

template <class T, int... Is>
__device__ T folded(T x) {
  return ((x * Is) + ...);
}

int main() {
  const int n = 100;
  Buffer<double> out(n);
  std::vector<double> expected(n);
  Polynomial polynomial = {{}, 39};
  for (int i = 0; i < 40; i++) polynomial.coefficients[i] = i % 5 - 2;
  for (int i = 0; i < n; i++) expected[i] = polynomial(i);
  apply<<<4, 32>>>(polynomial, out.data, n);
  LAUNCHED();
  expect_same(out.host(), expected, "functor");
  digest(out.host());
  int factor = 3;
  for (int i = 0; i < n; i++) expected[i] = i * 3 + 'c' + 0.5f - 7 + 120 + i * 6;
  apply<<<4, 32>>>(
      [=] __device__(int i, char a, float b, long long c, short d) {
        return i * factor + a + b + c + d + folded<double, 1, 2, 3>(i);
      },
      out.data, n, 'c', 0.5f, -7ll, short{Factorial<5>::value});
  LAUNCHED();
  expect_same(out.host(), expected, "lambda");
  digest(out.host());
  return finish();
}
