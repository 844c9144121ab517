// Transpose through a padded tile in shared memory, eight threads per row of the tile.
#include "check.h"

template <class T>
__global__ void transpose(const T* in, T* out, int rows, int columns) {
  __shared__ T tile[32][33];
  int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
  for (int j = 0; j < 32; j += 8)
    if (x < columns && y + j < rows) tile[threadIdx.y + j][threadIdx.x] = in[(y + j) * columns + x];
  __syncthreads();
  x = blockIdx.y * 32 + threadIdx.x;
  y = blockIdx.x * 32 + threadIdx.y;
  for (int j = 0; j < 32; j += 8)
    if (x < rows && y + j < columns) out[(y + j) * rows + x] = tile[threadIdx.x][threadIdx.y + j];
}

template <class T>
void check(int rows, int columns) {
  std::vector<T> in(rows * columns), expected(rows * columns);
  Random random(rows);
  for (T& value : in) value = static_cast<T>(random.next());
  for (int r = 0; r < rows; r++)
    for (int c = 0; c < columns; c++) expected[c * rows + r] = in[r * columns + c];
  Buffer<T> din(in), out(rows * columns);
  transpose<<<dim3((columns + 31) / 32, (rows + 31) / 32), dim3(32, 8)>>>(din.data, out.data, rows, columns);
  LAUNCHED();
  expect_same(out.host(), expected);
  digest(out.host());
}

int main() {
  check<uint8_t>(33, 70);
  check<int16_t>(64, 64);
  check<uint32_t>(100, 31);
  check<int64_t>(45, 66);
  return finish();
}
