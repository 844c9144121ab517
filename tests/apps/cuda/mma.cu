// nvcc: -arch=sm_80
// mma.sync by inline assembly, f16 into f32 (m16n8k16), with the fragment layout of the PTX manual, and
// ldmatrix to load the fragments.
#include "check.h"

#include <cuda_fp16.h>

__global__ void product(const __half* a, const __half* b, float* d) {
  __shared__ __align__(16) __half sa[16 * 16], sb[16 * 8];
  int lane = threadIdx.x;
  for (int i = lane; i < 256; i += 32) sa[i] = a[i];
  for (int i = lane; i < 128; i += 32) sb[i] = b[i];  // 16 rows of 8
  __syncwarp();
  unsigned ra[4], rb[2];
  auto address = [](const void* p) { return static_cast<unsigned>(__cvta_generic_to_shared(p)); };
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(ra[0]), "=r"(ra[1]), "=r"(ra[2]), "=r"(ra[3])
               : "r"(address(&sa[(lane % 16) * 16 + lane / 16 * 8])));
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];"
               : "=r"(rb[0]), "=r"(rb[1])
               : "r"(address(&sb[(lane % 16) * 8])));
  float c[4] = {};
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(ra[0]), "r"(ra[1]), "r"(ra[2]), "r"(ra[3]), "r"(rb[0]), "r"(rb[1]));
  int row = lane / 4, column = lane % 4 * 2;
  d[row * 8 + column] = c[0];
  d[row * 8 + column + 1] = c[1];
  d[(row + 8) * 8 + column] = c[2];
  d[(row + 8) * 8 + column + 1] = c[3];
}

int main() {
  Random random(22);
  std::vector<__half> a(16 * 16), b(16 * 8);
  for (__half& value : a) value = __float2half(float(int(random.below(21)) - 10));
  for (__half& value : b) value = __float2half(float(int(random.below(21)) - 10));
  std::vector<float> expected(16 * 8);
  for (int i = 0; i < 16; i++)
    for (int j = 0; j < 8; j++)
      for (int k = 0; k < 16; k++)
        expected[i * 8 + j] += __half2float(a[i * 16 + k]) * __half2float(b[k * 8 + j]);
  Buffer<__half> da(a), db(b);
  Buffer<float> dd(16 * 8);
  product<<<1, 32>>>(da, db, dd);
  LAUNCHED();
  expect_same(dd.host(), expected);
  digest(dd.host());
  return finish();
}
