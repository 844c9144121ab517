// Compiled to PTX text, which main.cu loads.
extern "C" {
__device__ float factor = 1;

__global__ void fill(int* data, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) data[i] = 3 * i;
}

__global__ void scale(const int* from, float* to, int n, float plus) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) to[i] = from[i] * factor + plus;
}
}
