// nvcc: -Xcompiler -fPIC -shared -Xlinker -Bsymbolic
// The plug-in: the same names as in the program, with other values.
#include <cuda_runtime.h>

__device__ int offset = 100;
static __global__ void work(int* data) { data[threadIdx.x] += offset; }

extern "C" int work_of_plugin(int* data, int n) {
  work<<<1, n>>>(data);
  return cudaGetLastError();
}
