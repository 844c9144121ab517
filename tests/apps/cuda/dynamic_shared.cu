// Dynamic shared memory: divided into arrays; more than 48 KiB only after the program has requested it.
#include "check.h"

extern __shared__ __align__(16) unsigned char room[];

__global__ void carve(const int* in, double* out, int n) {
  double* wide = reinterpret_cast<double*>(room);
  int* narrow = reinterpret_cast<int*>(wide + n);
  for (int i = threadIdx.x; i < n; i += blockDim.x) {
    narrow[i] = in[i];
    wide[i] = in[i] * 0.5;
  }
  __syncthreads();
  for (int i = threadIdx.x; i < n; i += blockDim.x) out[i] = wide[n - 1 - i] + narrow[i];
}

int main() {
  const int few = 100, many = 5000;  // 60000 bytes
  std::vector<uint32_t> numbers = Random(30).integers(many, 1000);
  std::vector<int> in(numbers.begin(), numbers.end());
  Buffer<int> din(in);
  Buffer<double> out(many);
  auto check = [&](int n) {
    std::vector<double> expected(n), got = out.host();
    for (int i = 0; i < n; i++) expected[i] = in[n - 1 - i] * 0.5 + in[i];
    got.resize(n);
    expect_same(got, expected);
    digest(got);
  };
  carve<<<1, 128, few * 12>>>(din, out, few);
  LAUNCHED();
  check(few);
  carve<<<1, 128, many * 12>>>(din, out, many);
  FAILS(cudaGetLastError(), cudaErrorInvalidValue);
  CALL(cudaFuncSetAttribute(carve, cudaFuncAttributeMaxDynamicSharedMemorySize, many * 12));
  carve<<<1, 128, many * 12>>>(din, out, many);
  LAUNCHED();
  check(many);
  cudaFuncAttributes attributes;
  CALL(cudaFuncGetAttributes(&attributes, carve));
  EXPECT(attributes.maxDynamicSharedSizeBytes == many * 12);
  return finish();
}
