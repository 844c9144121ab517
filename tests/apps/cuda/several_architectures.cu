// nvcc: -gencode arch=compute_75,code=sm_75 -gencode arch=compute_80,code=compute_80
// nvcc: -gencode arch=compute_90,code=compute_90
// Code for several architectures: the best one for the device is chosen; the kernel reports which.
#include "check.h"

__global__ void which(int* out) {
#ifdef __CUDA_ARCH__
  *out = __CUDA_ARCH__;
#endif
}

int main() {
  int major, minor;
  CALL(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0));
  CALL(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, 0));
  int capability = major * 100 + minor * 10;
  Buffer<int> out(1);
  which<<<1, 1>>>(out);
  LAUNCHED();
  int got = out.host()[0];
  EXPECT(got == (capability >= 900 ? 900 : capability >= 800 ? 800 : 750));
  cudaFuncAttributes attributes;
  CALL(cudaFuncGetAttributes(&attributes, which));
  EXPECT(attributes.ptxVersion * 10 <= capability);
  return finish();
}
