// __device__ and __constant__ variables: initial values, copies to and from symbols with offsets, addresses,
// sizes.
// run: also=shared
#include "check.h"

__device__ int numbers[8] = {1, 2, 3, 4};
__device__ double scale = 0.5;
__constant__ float weights[16] = {1, 2};
__constant__ unsigned char text[] = "software";
__device__ int* pointer_to_number = &numbers[2];
__device__ const char* words[] = {"zero", "one", "two"};
struct Shape {
  short a;
  long long b;
  char c[3];
};
__device__ Shape shape = {-2, 1ll << 40, {'x', 'y', 'z'}};

__global__ void use(double* out) {
  out[0] = numbers[0] + numbers[3] * scale;
  out[1] = weights[0] + weights[5];
  out[2] = text[2];
  out[3] = *pointer_to_number;
  out[4] = words[2][1];
  out[5] = shape.a + double(shape.b) + shape.c[2];
  numbers[7] = 77;
}

int main() {
  Buffer<double> out(6);
  use<<<1, 1>>>(out);
  LAUNCHED();
  expect_same(out.host(), std::vector<double>{3, 1, 'f', 3, 'w', -2 + double(1ll << 40) + 'z'}, "initial");
  int few[2] = {10, 20};
  CALL(cudaMemcpyToSymbol(numbers, few, sizeof few, 2 * sizeof(int)));
  float six = 6;
  CALL(cudaMemcpyToSymbol(weights, &six, sizeof six, 5 * sizeof(float)));
  double half = 0.25, back = 0;
  CALL(cudaMemcpyToSymbolAsync(scale, &half, sizeof half, 0, cudaMemcpyHostToDevice, 0));
  CALL(cudaMemcpyFromSymbol(&back, scale, sizeof back));
  EXPECT(back == 0.25);
  use<<<1, 1>>>(out);
  LAUNCHED();
  expect_same(out.host(), std::vector<double>{1 + 20 * 0.25, 7, 'f', 10, 'w', -2 + double(1ll << 40) + 'z'},
              "changed");
  int all[8];
  CALL(cudaMemcpyFromSymbol(all, numbers, sizeof all));
  expect_same(std::vector<int>(all, all + 8), std::vector<int>{1, 2, 10, 20, 0, 0, 0, 77});
  void* address;
  size_t size;
  CALL(cudaGetSymbolAddress(&address, numbers));
  CALL(cudaGetSymbolSize(&size, numbers));
  EXPECT(size == sizeof all);
  int seven;
  CALL(cudaMemcpy(&seven, static_cast<int*>(address) + 7, sizeof seven, cudaMemcpyDeviceToHost));
  EXPECT(seven == 77);
  FAILS(cudaMemcpyToSymbol(numbers, few, sizeof few, 7 * sizeof(int)), cudaErrorInvalidValue);
  FAILS(cudaGetSymbolAddress(&address, &half), cudaErrorInvalidSymbol);
  digest(out.host());
  return finish();
}
