// Causal attention of a few heads: scores, softmax and weighted sum in one kernel; keys and values in tiles
// with flash attention's running maximum and sum.
#include "check.h"

constexpr int kHead = 32, kTile = 16;

__global__ void attention(const float* q, const float* k, const float* v, float* out, int length) {
  __shared__ float keys[kTile][kHead], values[kTile][kHead];
  const size_t head = size_t{blockIdx.y} * length * kHead;
  int row = blockIdx.x * blockDim.x + threadIdx.x;
  float query[kHead], sum[kHead] = {}, top = -INFINITY, weight = 0;
  for (int d = 0; d < kHead; d++) query[d] = row < length ? q[head + row * kHead + d] * rsqrtf(kHead) : 0.0f;
  for (int first = 0; first < length; first += kTile) {
    for (int i = threadIdx.x; i < kTile * kHead; i += blockDim.x) {
      bool inside = first + i / kHead < length;
      keys[i / kHead][i % kHead] = inside ? k[head + first * kHead + i] : 0.0f;
      values[i / kHead][i % kHead] = inside ? v[head + first * kHead + i] : 0.0f;
    }
    __syncthreads();
    for (int j = 0; j < kTile && first + j <= row && first + j < length; j++) {
      float score = 0;
      for (int d = 0; d < kHead; d++) score += query[d] * keys[j][d];
      float now = fmaxf(top, score), scale = __expf(top - now), part = __expf(score - now);
      weight = weight * scale + part;
      for (int d = 0; d < kHead; d++) sum[d] = sum[d] * scale + part * values[j][d];
      top = now;
    }
    __syncthreads();
  }
  if (row < length)
    for (int d = 0; d < kHead; d++) out[head + row * kHead + d] = sum[d] / weight;
}

int main() {
  const int heads = 2, length = 45;
  Random random(15);
  size_t size = heads * length * kHead;
  std::vector<float> q = random.floats(size, -2, 2), k = random.floats(size, -2, 2), v = random.floats(size);
  std::vector<double> expected(size);
  for (int h = 0; h < heads; h++)
    for (int i = 0; i < length; i++) {
      std::vector<double> score(i + 1);
      double top = -INFINITY, weight = 0;
      auto at = [&](int row, int d) { return (size_t(h) * length + row) * kHead + d; };
      for (int j = 0; j <= i; j++) {
        for (int d = 0; d < kHead; d++)
          score[j] += double(q[at(i, d)]) * k[at(j, d)] / std::sqrt(double(kHead));
        top = std::fmax(top, score[j]);
      }
      for (int j = 0; j <= i; j++) weight += std::exp(score[j] - top);
      for (int j = 0; j <= i; j++)
        for (int d = 0; d < kHead; d++) expected[at(i, d)] += std::exp(score[j] - top) / weight * v[at(j, d)];
    }
  Buffer<float> dq(q), dk(k), dv(v), out(size);
  attention<<<dim3((length + 31) / 32, heads), 32>>>(dq, dk, dv, out, length);
  LAUNCHED();
  expect_near(out.host(), expected, 1e-4, 1e-5);
  digest(out.host());
  return finish();
}
