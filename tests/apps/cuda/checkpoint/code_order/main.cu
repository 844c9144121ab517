// nvcc: -std=c++17 -lcuda
// run: ways=static,shared
// Code that is loaded in another order than it was registered, and unloaded while later code stays: a second
// file's kernels before the first one's, a plug-in that is opened and closed, modules in turn. All their
// variables must keep their device addresses. With --addresses, the host also queries the addresses of
// variables of the plug-in and the modules, by names that every module has. With --second, the second device
// is first used after the plug-in was unloaded, when this file's code lies behind it on the first device.
#include <cuda.h>
#include <dlfcn.h>

#include <memory>
#include <string>

#include "../saved.h"
#include "other.h"

#define CU(what)                                                                                 \
  do {                                                                                           \
    CUresult result_ = (what);                                                                   \
    if (result_ != CUDA_SUCCESS) steplog_fail("line %d: %s: %d", __LINE__, #what, (int)result_); \
  } while (0)

constexpr int kKept = 6;  // one each of: the other file, this file, the plug-in, three modules

__device__ unsigned own[3] = {21, 22, 23};
__global__ void keep_own(unsigned** at) { *at = &own[1]; }
__global__ void stir(unsigned** kept, unsigned add, unsigned* out) {
  unsigned* value = kept[threadIdx.x];
  if (value) *value = *value * 1664525 + add;
  out[threadIdx.x] = value ? *value : 0;
}

// A module whose variable has that many words.
static std::string module_text(int words) {
  const std::string number = std::to_string(words);
  return R"(.version 8.0
.target sm_75
.address_size 64
.visible .global .align 4 .u32 before_)" +
         number + "[" + number + R"(];
.global .align 4 .u32 total = 41;
.visible .entry keep(.param .u64 at) {
  .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [at];
  cvta.to.global.u64 %rd2, %rd1;
  mov.u64 %rd3, total;
  cvta.global.u64 %rd3, %rd3;
  st.global.u64 [%rd2], %rd3;
  ret;
}
)";
}

int main(int argc, char** argv) {
  steplog_open(argc, argv, -1);
  DeviceNonce nonce;
  Buffer<unsigned*> kept{std::vector<unsigned*>(kKept)};
  Buffer<unsigned> out(kKept);
  unsigned expected[kKept] = {};
  keep_other(kept.data);
  expected[0] = 11;
  void* plugin = nullptr;
  CUmodule modules[3] = {};
  unsigned turn = 0;
  const auto forget = [&](int at) {
    CALL(cudaMemset(kept.data + at, 0, sizeof(unsigned*)));
    expected[at] = 0;
  };
  const bool addresses = steplog_has(argc, argv, "--addresses");
  const bool second = steplog_has(argc, argv, "--second");
  std::unique_ptr<Buffer<unsigned*>> kept_there;
  std::unique_ptr<Buffer<unsigned>> out_there;
  unsigned expected_there = 22;
  while (steplog_done < steplog_steps) {
    const auto step = static_cast<unsigned>(steplog_done);
    if (step == 2) {  // the first kernel of this file that uses the variable
      keep_own<<<1, 1>>>(kept.data + 1);
      LAUNCHED();
      expected[1] = 22;
    }
    if (step % 5 == 1) {
      plugin = dlopen((std::string(argv[0]) + ".plugin.so").c_str(), RTLD_NOW);
      if (!plugin) steplog_fail("%s", dlerror());
      EXPECT(reinterpret_cast<int (*)(unsigned**)>(dlsym(plugin, "keep_plugin"))(kept.data + 2) == 0);
      expected[2] = 51;
      if (addresses) EXPECT(reinterpret_cast<void* (*)()>(dlsym(plugin, "address_in_plugin"))());
    } else if (step % 5 == 4 && plugin) {
      forget(2);
      dlclose(plugin);
      plugin = nullptr;
    }
    if (step % 2) {  // the newest module is loaded, then the oldest of three is unloaded
      const unsigned at = turn++ % 3;
      CUfunction keep;
      CUmodule young;
      const int words = 1 + static_cast<int>(step * 37 % 900);
      CU(cuModuleLoadData(&young, module_text(words).c_str()));
      if (modules[at]) CU(cuModuleUnload(modules[at]));
      modules[at] = young;
      CU(cuModuleGetFunction(&keep, young, "keep"));
      CUdeviceptr before;
      if (addresses)
        CU(cuModuleGetGlobal(&before, nullptr, young, ("before_" + std::to_string(words)).c_str()));
      unsigned** slot = kept.data + 3 + at;
      void* arguments[] = {&slot};
      CU(cuLaunchKernel(keep, 1, 1, 1, 1, 1, 1, 0, nullptr, arguments, nullptr));
      expected[3 + at] = 41;
    }
    if (second && step >= 5) {
      CALL(cudaSetDevice(1));
      if (step == 5) {
        kept_there = std::make_unique<Buffer<unsigned*>>(1);
        out_there = std::make_unique<Buffer<unsigned>>(1);
        keep_own<<<1, 1>>>(*kept_there);
      }
      stir<<<1, 1>>>(*kept_there, step, *out_there);
      LAUNCHED();
      expected_there = expected_there * 1664525 + step;
      const unsigned there = out_there->host()[0];
      if (there != expected_there)
        steplog_fail("step %u: the variable there is %u instead of %u", step, there, expected_there);
      CALL(cudaSetDevice(0));
    }
    stir<<<1, kKept>>>(kept, step, out);
    LAUNCHED();
    const std::vector<unsigned> values = out.host();
    for (int i = 0; i < kKept; ++i) {
      if (expected[i]) expected[i] = expected[i] * 1664525 + step;
      if (values[i] != expected[i])
        steplog_fail("step %u: variable %d is %u instead of %u", step, i, values[i], expected[i]);
    }
    mix(values);
    steplog_step();
  }
  nonce.back();
  steplog_ok();
  return 0;
}
