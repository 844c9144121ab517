// nvcc: -lnvrtc -lcuda
// A kernel compiled from text at run time, loaded by the driver and launched beside the runtime's own.
#include <cuda.h>
#include <nvrtc.h>

#include "check.h"

static const char* text = R"(
template <class T> __device__ T cubed(T x) { return x * x * x; }
template <class T> __global__ void cube(const T* in, T* out, int n) {
  for (int i = threadIdx.x; i < n; i += blockDim.x) out[i] = cubed(in[i]) + OFFSET;
}
)";

int main() {
  nvrtcProgram program;
  EXPECT(nvrtcCreateProgram(&program, text, "cube.cu", 0, nullptr, nullptr) == NVRTC_SUCCESS);
  EXPECT(nvrtcAddNameExpression(program, "cube<long long>") == NVRTC_SUCCESS);
  const char* options[] = {"--gpu-architecture=compute_75", "-DOFFSET=5"};
  EXPECT(nvrtcCompileProgram(program, 2, options) == NVRTC_SUCCESS);
  size_t size;
  EXPECT(nvrtcGetPTXSize(program, &size) == NVRTC_SUCCESS);
  std::vector<char> ptx(size);
  EXPECT(nvrtcGetPTX(program, ptx.data()) == NVRTC_SUCCESS);
  const char* name;
  EXPECT(nvrtcGetLoweredName(program, "cube<long long>", &name) == NVRTC_SUCCESS);

  const int n = 100;
  std::vector<long long> in(n), expected(n);
  for (int i = 0; i < n; i++) in[i] = i, expected[i] = 1ll * i * i * i + 5;
  Buffer<long long> din(in), out(n);
  CUmodule module;
  CUfunction function;
  EXPECT(cuModuleLoadDataEx(&module, ptx.data(), 0, nullptr, nullptr) == CUDA_SUCCESS);
  EXPECT(cuModuleGetFunction(&function, module, name) == CUDA_SUCCESS);
  int count = n;
  void* arguments[] = {&din.data, &out.data, &count};
  EXPECT(cuLaunchKernel(function, 1, 1, 1, 64, 1, 1, 0, nullptr, arguments, nullptr) == CUDA_SUCCESS);
  expect_same(out.host(), expected);
  digest(out.host());
  EXPECT(cuModuleUnload(module) == CUDA_SUCCESS);
  nvrtcDestroyProgram(&program);
  return finish();
}
