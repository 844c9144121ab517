// A plug-in loaded at run time, with its own statically linked runtime. Program and plug-in share the primary
// context; each has its own kernels and variables. The plug-in can be unloaded.
// run: also=shared
#include <dlfcn.h>

#include <string>

#include "../check.h"

__device__ int offset = 1;
__global__ void work(int* data) { data[threadIdx.x] += offset; }

int main(int, char** arguments) {
  const int n = 32;
  std::vector<int> expected(n);
  Buffer<int> data(n);
  data.zero();
  work<<<1, n>>>(data);
  LAUNCHED();
  std::string path = std::string(arguments[0]) + ".plugin.so";
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) fail("%s", dlerror());
  auto work_of_plugin = reinterpret_cast<int (*)(int*, int)>(dlsym(library, "work_of_plugin"));
  for (int round = 0; round < 3; round++) {
    EXPECT(work_of_plugin(data, n) == 0);
    work<<<1, n>>>(data);
    LAUNCHED();
  }
  CALL(cudaDeviceSynchronize());
  for (int& value : expected) value = 4 + 3 * 100;
  expect_same(data.host(), expected);
  digest(expected);
  return finish();
}
