// Heat on a plate: a five-point stencil with two alternating buffers, in double precision.
#include "check.h"

__global__ void step(const double* in, double* out, int side) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= side || y >= side) return;
  int at = y * side + x;
  if (x == 0 || y == 0 || x == side - 1 || y == side - 1)
    out[at] = in[at];
  else
    out[at] = 0.25 * (in[at - 1] + in[at + 1] + in[at - side] + in[at + side]);
}

int main() {
  const int side = 40, steps = 60;
  std::vector<double> plate(side * side);
  for (int x = 0; x < side; x++) plate[x] = 100;
  Buffer<double> a(plate), b(side * side);
  std::vector<double> next = plate;
  for (int s = 0; s < steps; s++) {
    if (s % 2)
      step<<<dim3(3, 5), dim3(16, 8)>>>(b, a, side);
    else
      step<<<dim3(3, 5), dim3(16, 8)>>>(a, b, side);
    for (int y = 1; y < side - 1; y++)
      for (int x = 1; x < side - 1; x++) {
        int at = y * side + x;
        next[at] = 0.25 * (plate[at - 1] + plate[at + 1] + plate[at - side] + plate[at + side]);
      }
    plate = next;
  }
  LAUNCHED();
  expect_same(a.host(), plate);
  digest(a.host());
  return finish();
}
