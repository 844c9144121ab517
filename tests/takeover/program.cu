// Checks a kernel's results; one of the program's own functions has the name of a runtime function.
#include <cstdio>
#include <vector>

extern "C" int own_function(int value);

__device__ int added = 3;
__global__ void twice(float* x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] = 2 * x[i] + added;
}

int main(int count, char** arguments) {
  std::vector<float> x(1000);
  for (int i = 0; i < 1000; i++) x[i] = static_cast<float>(i);
  float* on_device = nullptr;
  cudaError_t error = cudaMalloc(&on_device, 4000);
  if (error == cudaSuccess) error = cudaMemcpy(on_device, x.data(), 4000, cudaMemcpyHostToDevice);
  twice<<<8, 128>>>(on_device, 1000);
  if (error == cudaSuccess) error = cudaGetLastError();
  if (error == cudaSuccess) error = cudaMemcpy(x.data(), on_device, 4000, cudaMemcpyDeviceToHost);
  int wrong = 0;
  for (int i = 0; i < 1000; i++) wrong += x[i] != 2.0f * i + 3;
  if (own_function(41) != 42) wrong++;
  std::printf("error %d, %d wrong", static_cast<int>(error), wrong);
  for (int i = 1; i < count; i++) std::printf(" [%s]", arguments[i]);
  std::printf("\n");
  return error != cudaSuccess || wrong;
}
