// Calls that need no GPU, through the generated wrappers of the CUDA runtime and of NCCL, against the same
// ones made directly: `cuda_host UPPER_cudart.so UPPER_nccl.so`.
#include <cuda_runtime_api.h>
#include <nccl.h>

#include <cstring>

#include "cudart_functions.h"
#include "nccl_functions.h"
#include "runtime.h"

using namespace one_abi_test;
extern "C" void* const cropdl_cudart_lower_table[cropdl::seam::cudart::kFnCount];
extern "C" void* const cropdl_nccl_lower_table[cropdl::seam::nccl::kFnCount];

#define CUDA(name) function<decltype(&name)>(cuda, #name, "libcudart.so.13")
#define NCCL(name) function<decltype(&name)>(nccl, #name)

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  prepare_gate();
  void* cuda = load_upper(argv[1], 0, cropdl_cudart_lower_table);
  void* nccl = load_upper(argv[2], 1, cropdl_nccl_lower_table);

  int version = 0, direct = 0;
  expect(CUDA(cudaRuntimeGetVersion)(&version) == cudaRuntimeGetVersion(&direct) && version == direct &&
             version > 0,
         "cudaRuntimeGetVersion");
  expect(!strcmp(CUDA(cudaGetErrorName)(cudaErrorInvalidValue), "cudaErrorInvalidValue"), "cudaGetErrorName");
  using Create = cudaChannelFormatDesc (*)(int, int, int, int, cudaChannelFormatKind);
  const auto create =
      function<Create>(cuda, "cudaCreateChannelDesc", "libcudart.so.13");  // C++ has a template of that name
  const cudaChannelFormatDesc format = create(8, 16, 24, 32, cudaChannelFormatKindFloat);
  expect(format.x == 8 && format.w == 32 && format.f == cudaChannelFormatKindFloat, "cudaCreateChannelDesc");
  int devices = -1, there = -1;
  expect(CUDA(cudaGetDeviceCount)(&devices) == cudaGetDeviceCount(&there) && devices == there,
         "cudaGetDeviceCount");
  cudaStream_t stream = nullptr;
  const cudaError_t made = CUDA(cudaStreamCreate)(&stream);
  expect(there > 0 ? made == cudaSuccess && reinterpret_cast<uint64_t>(stream) >> 48 == 0x7a7a
                   : made != cudaSuccess && !stream,
         "cudaStreamCreate gives a virtual handle, or none where there is no GPU");
  if (made == cudaSuccess) {
    expect(CUDA(cudaStreamSynchronize)(stream) == cudaSuccess, "cudaStreamSynchronize");
    expect(CUDA(cudaStreamDestroy)(stream) == cudaSuccess, "cudaStreamDestroy");
  }

  expect(NCCL(ncclGetVersion)(&version) == ncclGetVersion(&direct) && version == direct && version > 0,
         "ncclGetVersion");
  expect(!strcmp(NCCL(ncclGetErrorString)(ncclInvalidUsage), ncclGetErrorString(ncclInvalidUsage)),
         "ncclGetErrorString");
  expect(function<decltype(&ncclGetVersion)>(nccl, "pncclGetVersion")(&version) == ncclSuccess &&
             version == direct,
         "pncclGetVersion");
  int count = 0;
  expect(NCCL(ncclCommCount)(nullptr, &count) == ncclCommCount(nullptr, &count), "ncclCommCount of nothing");
  printf("%d GPU(s)\n", there > 0 ? there : 0);
  if (!failures) puts("all expectations hold");
  return failures != 0;
}
