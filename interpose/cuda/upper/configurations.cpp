// The launch syntax `kernel<<<grid, block, shared, stream>>>(...)`: nvcc's code pushes the configuration,
// evaluates the arguments, which may contain launches, and pops it. Makes no call into the LH. UH, any
// thread, UH FS base. Source: crt/host_runtime.h and nvcc's generated code.
#include <cuda_runtime_api.h>

#include "interpose/gen/cudart/undeclared.h"

namespace {

struct Configuration {
  dim3 grid, block;
  size_t shared;
  void* stream;
};
// Depth of launches within arguments of launches. NVIDIA's runtime has a limit of its own.
constexpr unsigned kDeepest = 64;
struct Configurations {
  unsigned count;
  alignas(Configuration) char at[kDeepest][sizeof(Configuration)];
};
__thread Configurations configurations;

}  // namespace

extern "C" {

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, void* stream) {
  Configurations& c = configurations;
  if (c.count == kDeepest) return cudaErrorInvalidConfiguration;
  *reinterpret_cast<Configuration*>(c.at[c.count++]) = {grid, block, shared, stream};
  return cudaSuccess;
}

cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared, void* stream) {
  Configurations& c = configurations;
  if (c.count == 0) return cudaErrorMissingConfiguration;
  const auto& last = *reinterpret_cast<const Configuration*>(c.at[--c.count]);
  *grid = last.grid;
  *block = last.block;
  *shared = last.shared;
  *static_cast<void**>(stream) = last.stream;
  return cudaSuccess;
}

}  // extern "C"
