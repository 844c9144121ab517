// Times the software GPU: a launch, a copy, a matrix product by kernels, one by cuBLAS. Prints one line each.
#include <cublas_v2.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <vector>

__global__ void empty() {}

constexpr int kTile = 16, kSide = 256;
__global__ void multiply(const float* a, const float* b, float* c) {
  __shared__ float left[kTile][kTile], right[kTile][kTile];
  const int row = blockIdx.y * kTile + threadIdx.y, column = blockIdx.x * kTile + threadIdx.x;
  float sum = 0;
  for (int tile = 0; tile < kSide; tile += kTile) {
    left[threadIdx.y][threadIdx.x] = a[row * kSide + tile + threadIdx.x];
    right[threadIdx.y][threadIdx.x] = b[(tile + threadIdx.y) * kSide + column];
    __syncthreads();
    for (int k = 0; k < kTile; k++) sum += left[threadIdx.y][k] * right[k][threadIdx.x];
    __syncthreads();
  }
  c[row * kSide + column] = sum;
}

template <class F>
double fastest(F run) {  // the fastest of several runs, in seconds
  double best = 1e9;
  for (int round = 0; round < 9; round++) {
    const auto begin = std::chrono::steady_clock::now();
    run();
    cudaDeviceSynchronize();
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  return best;
}

int main() {
  constexpr int kLaunches = 2000;
  constexpr size_t kBytes = size_t{64} << 20;
  float *a, *b, *c;
  cudaMalloc(&a, kBytes);
  cudaMalloc(&b, kBytes);
  cudaMalloc(&c, kBytes);
  cudaMemset(a, 0, kBytes);
  cudaMemset(b, 0, kBytes);
  std::vector<char> host(kBytes);
  cublasHandle_t cublas;
  cublasCreate(&cublas);
  const float one = 1, zero = 0;
  constexpr int kLarge = 1024;

  for (int blocks : {1, 64})
    std::printf("a launch of %d empty blocks: %.1f us\n", blocks, 1e6 / kLaunches * fastest([&] {
                                                                    for (int i = 0; i < kLaunches; i++)
                                                                      empty<<<blocks, 32>>>();
                                                                  }));
  std::printf("a launch of one empty block, awaited: %.1f us\n", 1e6 / kLaunches * fastest([&] {
                                                                   for (int i = 0; i < kLaunches; i++)
                                                                     empty<<<1, 32>>>(),
                                                                         cudaDeviceSynchronize();
                                                                 }));
  std::printf("a copy to the device and back: %.1f GB/s\n",
              2e-9 * kBytes / fastest([&] {
                cudaMemcpy(a, host.data(), kBytes, cudaMemcpyHostToDevice);
                cudaMemcpy(host.data(), a, kBytes, cudaMemcpyDeviceToHost);
              }));
  std::printf("a product in tiles of shared memory: %.2f G multiply-adds/s\n",
              1e-9 * kSide * kSide * kSide / fastest([&] {
                multiply<<<dim3(kSide / kTile, kSide / kTile), dim3(kTile, kTile)>>>(a, b, c);
              }));
  std::printf("cublasSgemm: %.1f G multiply-adds/s\n", 1e-9 * kLarge * kLarge * kLarge / fastest([&] {
                                                         cublasSgemm(cublas, CUBLAS_OP_N, CUBLAS_OP_N, kLarge,
                                                                     kLarge, kLarge, &one, a, kLarge, b,
                                                                     kLarge, &zero, c, kLarge);
                                                       }));
  std::printf("%s\n", cudaGetErrorString(cudaGetLastError()));
  return 0;
}
