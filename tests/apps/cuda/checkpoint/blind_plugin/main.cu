// nvcc: -std=c++17 -ldl
// run: build=long ways=static,shared
// Plug-ins with kernels, variables, function addresses and their own runtime: one is opened at the start, one
// is opened and closed. Each keeps a table of its functions on the device, which the program's kernels call,
// and uses streams and events that the program made. The program has its own runtime, used late.
#include <dlfcn.h>

#include <string>

#include "../saved.h"

typedef uint32_t (*Function)(uint32_t);
__device__ __noinline__ uint32_t own(uint32_t v) { return v * 5 + 3; }
__device__ Function own_function = own;
__device__ uint32_t used;
__global__ void apply(Function* f, int n, uint32_t* v) {
  for (int i = 0; i < n; i++) *v = f[i](*v);
  used++;
}
__global__ void apply_own(uint32_t* v) { *v = own_function(*v); }

struct Plugin {
  void* library;
  void* (*begin)(uint32_t);
  void (*step)(void*, cudaStream_t, cudaEvent_t, uint32_t*, uint32_t);
  uint32_t (*variable)();
  void (*end)(void*);
  void* state;
};
static Plugin opened(const std::string& path, uint32_t seed) {
  Plugin p;
  p.library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!p.library) steplog_fail("%s", dlerror());
  p.begin = reinterpret_cast<void* (*)(uint32_t)>(dlsym(p.library, "plugin_begin"));
  p.step = reinterpret_cast<void (*)(void*, cudaStream_t, cudaEvent_t, uint32_t*, uint32_t)>(
      dlsym(p.library, "plugin_step"));
  p.variable = reinterpret_cast<uint32_t (*)()>(dlsym(p.library, "plugin_variable"));
  p.end = reinterpret_cast<void (*)(void*)>(dlsym(p.library, "plugin_end"));
  EXPECT(p.begin && p.step && p.variable && p.end);
  p.state = p.begin(seed);
  return p;
}

int main(int argc, char** argv) {
  steplog_open(argc, argv, -1);
  char exe[4096] = {};
  std::string path = argv[0];
  if (path.find('/') == std::string::npos) path = realpath("/proc/self/exe", exe);
  const std::string name = path.substr(path.rfind('/') + 1);
  path = path.substr(0, path.rfind('/')) + "/" + name + ".plugin.so";
  DeviceNonce nonce;
  cudaStream_t s;
  cudaEvent_t e;
  CALL(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
  CALL(cudaEventCreate(&e));
  uint32_t* v;
  CALL(cudaMalloc(&v, 4));
  CALL(cudaMemset(v, 0, 4));
  CALL(cudaDeviceSynchronize());
  Plugin p = opened(path, 5);
  uint32_t model = 0, variable = 5, uses = 0;
  while (steplog_done < steplog_steps) {
    const uint32_t step = static_cast<uint32_t>(steplog_done);
    p.step(p.state, s, e, v, step);
    variable = variable * 3 + step;
    model = (model + variable) ^ step;
    // The plug-in's table is at the start of its state; the program's kernel calls the functions in it.
    Function* table = *static_cast<Function**>(p.state);
    apply<<<1, 1, 0, s>>>(table, 2, v);
    uses++;
    model = (model ^ model >> 11) * 2654435761u;
    model = model << 9 | model >> 23;
    if (step >= 5) {
      apply_own<<<1, 1, 0, s>>>(v);
      model = model * 5 + 3;
    }
    LAUNCHED();
    CALL(cudaStreamSynchronize(s));
    CALL(cudaEventQuery(e));
    uint32_t got, count;
    CALL(cudaMemcpy(&got, v, 4, cudaMemcpyDeviceToHost));
    CALL(cudaMemcpyFromSymbol(&count, used, 4));
    if (got != model || count != uses || p.variable() != variable)
      steplog_fail("value %x, should be %x; used %u, should be %u; variable %x, should be %x", got, model,
                   count, uses, p.variable(), variable);
    if (step % 8 == 6) {
      p.end(p.state);
      EXPECT(dlclose(p.library) == 0);
      p = opened(path, step);
      variable = step;
    }
    steplog_mix(got);
    steplog_step();
  }
  p.end(p.state);
  nonce.back();
  steplog_ok();
  return 0;
}
