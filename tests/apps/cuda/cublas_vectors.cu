// nvcc: -lcublas
// cuBLAS on vectors: axpy, dot, nrm2, scal, asum, iamax, copy, swap, gemv, ger, geam; with strides, and
// results in host and device memory.
#include <cublas_v2.h>

#include "check.h"

#define BLAS(what)                                                           \
  do {                                                                       \
    cublasStatus_t status = (what);                                          \
    if (status != CUBLAS_STATUS_SUCCESS)                                     \
      fail("line %d: %s: %s", __LINE__, #what, cublasGetStatusName(status)); \
  } while (0)

int main() {
  const int n = 500, m = 20, k = 30;
  Random random(61);
  std::vector<float> x = random.floats(n), y = random.floats(n), a = random.floats(m * k);
  Buffer<float> dx(x), dy(y), da(a), scalar(1), out(m * k);
  cublasHandle_t handle;
  BLAS(cublasCreate(&handle));
  float two = 2, half = 0.5f, one = 1, zero = 0, result;
  BLAS(cublasSaxpy(handle, n, &two, dx, 1, dy, 1));
  for (int i = 0; i < n; i++) y[i] = std::fma(2.0f, x[i], y[i]);
  expect_near(dy.host(), y, 1e-6, 1e-7, "axpy");
  double dot = 0, norm = 0, sum = 0;
  int largest = 0;
  for (int i = 0; i < n; i++) {
    dot += double(x[i]) * y[i];
    norm += double(x[i]) * x[i];
    sum += std::fabs(x[i]);
    if (std::fabs(x[i]) > std::fabs(x[largest])) largest = i;
  }
  BLAS(cublasSdot(handle, n, dx, 1, dy, 1, &result));
  EXPECT(std::fabs(result - dot) < 1e-4 * std::fabs(dot) + 1e-4);
  digest(result);
  BLAS(cublasSnrm2(handle, n, dx, 1, &result));
  EXPECT(std::fabs(result - std::sqrt(norm)) < 1e-5 * std::sqrt(norm));
  BLAS(cublasSasum(handle, n, dx, 1, &result));
  EXPECT(std::fabs(result - sum) < 1e-5 * sum);
  int at;
  BLAS(cublasIsamax(handle, n, dx, 1, &at));
  EXPECT(at == largest + 1);  // counts from 1
  BLAS(cublasSetPointerMode(handle, CUBLAS_POINTER_MODE_DEVICE));
  BLAS(cublasSdot(handle, n, dx, 1, dy, 1, scalar));
  BLAS(cublasSetPointerMode(handle, CUBLAS_POINTER_MODE_HOST));
  EXPECT(std::fabs(scalar.host()[0] - dot) < 1e-4 * std::fabs(dot) + 1e-4);
  BLAS(cublasSscal(handle, n / 5, &half, dx, 5));  // every fifth element
  for (int i = 0; i < n; i += 5) x[i] *= 0.5f;
  expect_same(dx.host(), x, "scal");
  BLAS(cublasSswap(handle, 10, dx, 1, dy, 1));
  for (int i = 0; i < 10; i++) std::swap(x[i], y[i]);
  BLAS(cublasScopy(handle, 10, dx, 1, dy + 100, 2));
  for (int i = 0; i < 10; i++) y[100 + 2 * i] = x[i];
  expect_near(dx.host(), x, 1e-6, 1e-7, "swap");
  expect_near(dy.host(), y, 1e-6, 1e-7, "copy");
  std::vector<double> product(y.begin(), y.begin() + m), transposed(k);
  for (int i = 0; i < m; i++) {
    product[i] = 0.5 * y[i];
    for (int j = 0; j < k; j++) product[i] += 2.0 * a[j * m + i] * x[j];
  }
  BLAS(cublasSgemv(handle, CUBLAS_OP_N, m, k, &two, da, m, dx, 1, &half, dy, 1));
  std::vector<float> got = dy.host();
  got.resize(m);
  expect_near(got, product, 1e-5, 1e-5, "gemv");
  digest(got);
  for (int j = 0; j < k; j++)
    for (int i = 0; i < m; i++) transposed[j] += double(a[j * m + i]) * x[i];
  BLAS(cublasSgemv(handle, CUBLAS_OP_T, m, k, &one, da, m, dx, 1, &zero, dy, 1));
  got = dy.host();
  got.resize(k);
  expect_near(got, transposed, 1e-5, 1e-5, "gemv transposed");
  std::vector<double> sums(k * m);
  for (int i = 0; i < m; i++)
    for (int j = 0; j < k; j++) sums[i * k + j] = 2.0 * a[j * m + i];  // k rows: transposed
  BLAS(cublasSgeam(handle, CUBLAS_OP_T, CUBLAS_OP_N, k, m, &two, da, m, &zero, out, k, out, k));
  expect_near(out.host(), sums, 1e-6, 0, "geam");
  BLAS(cublasSger(handle, m, k, &one, dx, 1, dx + 50, 1, da, m));
  std::vector<double> outer(m * k);
  for (int j = 0; j < k; j++)
    for (int i = 0; i < m; i++) outer[j * m + i] = a[j * m + i] + double(x[i]) * x[50 + j];
  expect_near(da.host(), outer, 1e-6, 1e-6, "ger");
  digest(da.host());
  BLAS(cublasDestroy(handle));
  return finish();
}
