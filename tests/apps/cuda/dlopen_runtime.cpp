// nvcc: -ldl
// run: ways=none
// Finds the runtime only by dlopen and dlsym, like Python's ctypes: memory, a kernel from PTX text through
// the library functions, and the driver as well.
#include <dlfcn.h>
#include <driver_types.h>

#include <cstdio>
#include <cstdlib>

static const char* kPtx = R"(.version 8.0
.target sm_75
.address_size 64
.visible .entry triple(.param .u64 data) {
  .reg .b32 %r<4>;
  .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [data];
  mov.u32 %r1, %tid.x;
  mul.wide.u32 %rd2, %r1, 4;
  cvta.to.global.u64 %rd1, %rd1;
  add.s64 %rd3, %rd1, %rd2;
  ld.global.u32 %r2, [%rd3];
  mul.lo.s32 %r3, %r2, 3;
  st.global.u32 [%rd3], %r3;
  ret;
}
)";

static void* library;

template <class Function>
Function find(const char* name) {
  void* address = dlsym(library, name);
  if (!address) {
    std::fprintf(stderr, "differs: no %s\n", name);
    std::exit(1);
  }
  return reinterpret_cast<Function>(address);
}

static void check(int error, const char* what) {
  if (!error) return;
  std::fprintf(stderr, "differs: %s: %d\n", what, error);
  std::exit(1);
}

int main() {
  library = dlopen("libcudart.so.13", RTLD_NOW);
  if (!library) {
    std::fprintf(stderr, "differs: %s\n", dlerror());
    return 1;
  }
  int count = 0, values[32];
  void *memory = nullptr, *loaded = nullptr, *kernel = nullptr;
  check(find<int (*)(int*)>("cudaGetDeviceCount")(&count), "cudaGetDeviceCount");
  check(count < 1, "no device");
  for (int i = 0; i < 32; i++) values[i] = i;
  check(find<int (*)(void**, size_t)>("cudaMalloc")(&memory, sizeof values), "cudaMalloc");
  auto copy = find<int (*)(void*, const void*, size_t, int)>("cudaMemcpy");
  check(copy(memory, values, sizeof values, cudaMemcpyHostToDevice), "cudaMemcpy");
  using Load = int (*)(void**, const void*, void*, void*, unsigned, void*, void*, unsigned);
  check(find<Load>("cudaLibraryLoadData")(&loaded, kPtx, nullptr, nullptr, 0, nullptr, nullptr, 0),
        "cudaLibraryLoadData");
  check(find<int (*)(void**, void*, const char*)>("cudaLibraryGetKernel")(&kernel, loaded, "triple"),
        "cudaLibraryGetKernel");
  void* arguments[] = {&memory};
  struct Dim {
    unsigned x, y, z;
  };
  check(find<int (*)(void*, Dim, Dim, void**, size_t, void*)>("cudaLaunchKernel")(
            kernel, Dim{1, 1, 1}, Dim{32, 1, 1}, arguments, 0, nullptr),
        "cudaLaunchKernel");
  check(copy(values, memory, sizeof values, cudaMemcpyDeviceToHost), "cudaMemcpy");
  for (int i = 0; i < 32; i++)
    if (values[i] != 3 * i) {
      std::fprintf(stderr, "differs: values[%d] = %d\n", i, values[i]);
      return 1;
    }
  check(find<int (*)(void*)>("cudaFree")(memory), "cudaFree");
  std::printf("ok %d\n", values[31]);
  return 0;
}
