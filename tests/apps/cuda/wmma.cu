// nvcc: -arch=sm_80
// Matrix products by wmma fragments: f16 and bf16 into f32, tf32. The values are integers, so the results are
// exact.
#include "check.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <mma.h>

using namespace nvcuda;

template <class T, class Wmma, int K>
__global__ void product(const T* a, const T* b, const float* c, float* d, int n) {
  int row = blockIdx.y * 16, column = blockIdx.x * 16;
  wmma::fragment<wmma::matrix_a, 16, 16, K, Wmma, wmma::row_major> fa;
  wmma::fragment<wmma::matrix_b, 16, 16, K, Wmma, wmma::col_major> fb;
  wmma::fragment<wmma::accumulator, 16, 16, K, float> sum;
  wmma::load_matrix_sync(sum, c + row * n + column, n, wmma::mem_row_major);
  for (int k = 0; k < n; k += K) {
    wmma::load_matrix_sync(fa, a + row * n + k, n);
    wmma::load_matrix_sync(fb, b + column * n + k, n);
    wmma::mma_sync(sum, fa, fb, sum);
  }
  for (int i = 0; i < sum.num_elements; i++) sum.x[i] *= 2;
  wmma::store_matrix_sync(d + row * n + column, sum, n, wmma::mem_row_major);
}

template <class T, class Wmma, int K>
void check(const char* what) {
  const int n = 48;
  Random random(21);
  std::vector<T> a(n * n), b(n * n);
  std::vector<float> c(n * n), expected(n * n);
  for (T& value : a) value = static_cast<T>(float(int(random.below(17)) - 8));
  for (T& value : b) value = static_cast<T>(float(int(random.below(17)) - 8));
  for (float& value : c) value = float(int(random.below(100)));
  for (int i = 0; i < n; i++)
    for (int j = 0; j < n; j++) {
      float sum = c[i * n + j];
      for (int k = 0; k < n; k++) sum += static_cast<float>(a[i * n + k]) * static_cast<float>(b[j * n + k]);
      expected[i * n + j] = 2 * sum;
    }
  Buffer<T> da(a), db(b);
  Buffer<float> dc(c), dd(n * n);
  product<T, Wmma, K><<<dim3(n / 16, n / 16), 32>>>(da, db, dc, dd, n);
  LAUNCHED();
  expect_same(dd.host(), expected, what);
  digest(dd.host());
}

int main() {
  check<__half, __half, 16>("f16");
  check<__nv_bfloat16, __nv_bfloat16, 16>("bf16");
  check<float, wmma::precision::tf32, 8>("tf32");
  return finish();
}
