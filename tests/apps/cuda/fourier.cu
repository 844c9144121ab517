// A hand-written fast Fourier transform: one row per block in shared memory, sincospif for the twiddles,
// forward and back.
#include "check.h"

#include <complex>

constexpr int kSize = 256;

__global__ void transform(float2* data, float sign) {
  __shared__ float2 a[kSize];
  float2* row = data + blockIdx.x * kSize;
  int t = threadIdx.x;  // half as many threads as numbers
  for (int i = t; i < kSize; i += blockDim.x) a[__brev(i) >> 24] = row[i];
  for (int half = 1; half < kSize; half *= 2) {
    __syncthreads();
    int k = t % half, i = t / half * 2 * half + k;
    float s, c;
    sincospif(sign * k / half, &s, &c);
    float2 u = a[i], v = a[i + half];
    float2 w = make_float2(v.x * c - v.y * s, v.x * s + v.y * c);
    a[i] = make_float2(u.x + w.x, u.y + w.y);
    a[i + half] = make_float2(u.x - w.x, u.y - w.y);
  }
  __syncthreads();
  for (int i = t; i < kSize; i += blockDim.x) row[i] = a[i];
}

int main() {
  const int rows = 3;
  Random random(75);
  std::vector<float2> in(rows * kSize);
  for (float2& value : in) value = {random.uniform(), random.uniform()};
  std::vector<double> expected, got;
  for (int r = 0; r < rows; r++)
    for (int k = 0; k < kSize; k++) {
      std::complex<double> sum;
      for (int i = 0; i < kSize; i++)
        sum += std::complex<double>(in[r * kSize + i].x, in[r * kSize + i].y) *
               std::polar(1.0, -2 * M_PI * (k * i % kSize) / kSize);
      expected.insert(expected.end(), {sum.real(), sum.imag()});
    }
  Buffer<float2> data(in);
  transform<<<rows, kSize / 2>>>(data, -1);
  LAUNCHED();
  for (float2 value : data.host()) got.insert(got.end(), {value.x, value.y});
  expect_near(got, expected, 1e-4, 1e-4);
  digest(got);
  transform<<<rows, kSize / 2>>>(data, 1);
  LAUNCHED();
  std::vector<float2> back = data.host();
  for (int i = 0; i < rows * kSize; i++)
    EXPECT(std::fabs(back[i].x / kSize - in[i].x) < 1e-5 && std::fabs(back[i].y / kSize - in[i].y) < 1e-5);
  return finish();
}
