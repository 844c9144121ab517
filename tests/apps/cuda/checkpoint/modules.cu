// nvcc: -std=c++17 -lcuda
// run: ways=shared
// Code that the program loads: modules and libraries of PTX text (whose memory is then reused), from files
// that it deletes; some are loaded and unloaded in between; kernels are found by name and by enumeration.
// State is kept in their variables, and in variables of kernels that are never queried.
#include <cuda.h>
#include <unistd.h>

#include <string>

#include "saved.h"

#define CU(what)                                                                                 \
  do {                                                                                           \
    CUresult result_ = (what);                                                                   \
    if (result_ != CUDA_SUCCESS) steplog_fail("line %d: %s: %d", __LINE__, #what, (int)result_); \
  } while (0)

static const char* kPtx = R"(.version 8.0
.target sm_75
.address_size 64
.global .align 4 .u32 before, total = 7;
.visible .entry stir(.param .u64 out, .param .u32 add) {
  .reg .b32 %r<4>;
  .reg .b64 %rd<3>;
  ld.param.u64 %rd1, [out];
  ld.param.u32 %r1, [add];
  ld.global.u32 %r2, [total];
  mad.lo.u32 %r2, %r2, 1664525, %r1;
  st.global.u32 [total], %r2;
  cvta.to.global.u64 %rd2, %rd1;
  st.global.u32 [%rd2], %r2;
  ret;
}
)";

__global__ void own(unsigned* out, unsigned add) {
  static unsigned within = 9;  // a variable that is not registered
  *out = within = within * 1664525 + add;
}

static unsigned next(unsigned* expected, unsigned add) { return *expected = *expected * 1664525 + add; }

int main(int argc, char** argv) {
  steplog_open(argc, argv, -1);
  DeviceNonce nonce;
  Buffer<unsigned> out(std::vector<unsigned>(1));
  std::string text = kPtx;
  CUmodule module = nullptr, from_file = nullptr;
  CUlibrary library = nullptr;
  cudaLibrary_t runtimes = nullptr;
  char log[256];
  CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
                            CU_JIT_OPTIMIZATION_LEVEL};
  void* values[] = {log, reinterpret_cast<void*>(sizeof log), reinterpret_cast<void*>(2)};
  CU(cuModuleLoadDataEx(&module, text.c_str(), 3, options, values));
  char name[] = "./modules.XXXXXX";
  int file = mkstemp(name);
  EXPECT(file >= 0 && write(file, text.c_str(), text.size()) == static_cast<ssize_t>(text.size()) &&
         close(file) == 0);
  CU(cuModuleLoad(&from_file, name));
  unlink(name);
  CU(cuLibraryLoadData(&library, text.c_str(), nullptr, nullptr, 0, nullptr, nullptr, 0));
  CALL(cudaLibraryLoadData(&runtimes, text.c_str(), nullptr, nullptr, 0, nullptr, nullptr, 0));
  text.assign(text.size(), '?');

  CUfunction kernels[4];
  CU(cuModuleGetFunction(&kernels[0], module, "stir"));
  CU(cuModuleEnumerateFunctions(&kernels[1], 1, from_file));
  CUkernel kernel = nullptr;
  CU(cuLibraryEnumerateKernels(&kernel, 1, library));
  kernels[2] = reinterpret_cast<CUfunction>(kernel);
  cudaKernel_t by_name = nullptr;
  CALL(cudaLibraryGetKernel(&by_name, runtimes, "stir"));
  kernels[3] = reinterpret_cast<CUfunction>(by_name);

  unsigned expected[5] = {7, 7, 7, 7, 9};
  CUmodule passing = nullptr;
  while (steplog_done < steplog_steps) {
    unsigned add = static_cast<unsigned>(steplog_done) + 1;
    void* data = out.data;
    void* arguments[] = {&data, &add};
    for (int i = 0; i < 4; i++) {
      CU(cuLaunchKernel(kernels[i], 1, 1, 1, 1, 1, 1, 0, nullptr, arguments, nullptr));
      EXPECT(out.host()[0] == next(&expected[i], add));
    }
    own<<<1, 1>>>(out, add);
    LAUNCHED();
    EXPECT(out.host()[0] == next(&expected[4], add));
    mix(out.host());
    if (passing && steplog_done % 3 == 0) {
      CU(cuModuleUnload(passing));
      passing = nullptr;
    } else if (!passing) {
      CU(cuModuleLoadData(&passing, kPtx));
    }
    steplog_step();
  }
  const char* called = nullptr;
  CU(cuKernelGetName(&called, kernel));
  EXPECT(!strcmp(called, "stir"));
  CU(cuModuleUnload(module));
  CU(cuModuleUnload(from_file));
  CU(cuLibraryUnload(library));
  CALL(cudaLibraryUnload(runtimes));
  nonce.back();
  steplog_ok();
  return 0;
}
