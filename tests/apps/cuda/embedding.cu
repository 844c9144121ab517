// Gathers rows by index, and scatters their gradients with atomicAdd. The floats hold integers, so the order
// of additions does not matter.
#include "check.h"

__global__ void gather(const float* table, const int* rows, float* out, int width) {
  out[blockIdx.x * width + threadIdx.x] = table[rows[blockIdx.x] * width + threadIdx.x];
}

__global__ void scatter(const float* gradient, const int* rows, float* table, int width) {
  atomicAdd(&table[rows[blockIdx.x] * width + threadIdx.x], gradient[blockIdx.x * width + threadIdx.x]);
}

int main() {
  const int vocabulary = 20, width = 48, tokens = 200;
  Random random(18);
  std::vector<float> table = random.floats(vocabulary * width), gradient(tokens * width), out(tokens * width),
                     scattered(vocabulary * width);
  std::vector<int> rows(tokens);
  for (int& row : rows) row = random.below(vocabulary - 1);
  for (float& g : gradient) g = int(random.below(2001)) - 1000;
  for (int t = 0; t < tokens; t++)
    for (int w = 0; w < width; w++) {
      out[t * width + w] = table[rows[t] * width + w];
      scattered[rows[t] * width + w] += gradient[t * width + w];
    }
  Buffer<float> dtable(table), dout(tokens * width), dgradient(gradient), dscattered(vocabulary * width);
  Buffer<int> drows(rows);
  dscattered.zero();
  gather<<<tokens, width>>>(dtable, drows, dout, width);
  scatter<<<tokens, width>>>(dgradient, drows, dscattered, width);
  LAUNCHED();
  expect_same(dout.host(), out, "gathered");
  expect_same(dscattered.host(), scattered, "scattered");
  digest(dout.host());
  digest(dscattered.host());
  return finish();
}
