// links: gpu_cudart dl
// The runtime's library as a whole beside NVIDIA's, which the toolkit has and which needs no device for this:
// the same symbols under the same version, the same texts.
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <link.h>

#include <cstdio>
#include <set>
#include <string>

namespace {

// What `objdump -T` shows of a library: "symbol version", of what it defines.
std::set<std::string> exports_of(const std::string& path) {
  std::set<std::string> found;
  FILE* pipe = popen(("objdump -T '" + path + "'").c_str(), "r");
  char line[512];
  while (pipe && fgets(line, sizeof line, pipe)) {
    char flags[64], section[64], size[64], version[128], name[256];
    if (std::string(line).find("*UND*") != std::string::npos) continue;
    // "000000000004e360 g    DF .text	0000000000000173  libcudart.so.13 cudaMalloc"
    if (sscanf(line, "%*x g %63s %63s %63s %127s %255s", flags, section, size, version, name) == 5)
      if (std::string(section) != "*ABS*") found.insert(std::string(name) + " " + version);
  }
  if (pipe) pclose(pipe);
  return found;
}

std::string path_of(const void* address) {
  Dl_info info{};
  return dladdr(address, &info) && info.dli_fname ? info.dli_fname : "";
}

constexpr const char* kTheirs = CROPDL_CUDA_ROOT "/lib64/libcudart.so.13";

TEST(CudartExports, EverySymbolOfTheToolkitsLibraryExistsWithItsVersion) {
  const std::set<std::string> theirs = exports_of(kTheirs);
  const std::set<std::string> ours = exports_of(path_of(reinterpret_cast<void*>(&cudaMalloc)));
  ASSERT_GT(theirs.size(), 400u);
  EXPECT_EQ(ours, theirs);
}

TEST(CudartExports, ErrorsAreCalledAsNvidiasRuntimeCallsThem) {
  // In a namespace of its own: the process has our library under the same name.
  void* library = dlmopen(LM_ID_NEWLM, kTheirs, RTLD_NOW | RTLD_LOCAL);
  ASSERT_TRUE(library) << dlerror();
  const auto name = reinterpret_cast<const char* (*)(int)>(dlsym(library, "cudaGetErrorName"));
  const auto text = reinterpret_cast<const char* (*)(int)>(dlsym(library, "cudaGetErrorString"));
  ASSERT_TRUE(name && text);
  ASSERT_NE(reinterpret_cast<void*>(name), reinterpret_cast<void*>(&cudaGetErrorName));
  for (int error = -1; error <= 10001; error++) {
    ASSERT_STREQ(cudaGetErrorName(static_cast<cudaError_t>(error)), name(error)) << error;
    ASSERT_STREQ(cudaGetErrorString(static_cast<cudaError_t>(error)), text(error)) << error;
  }
}

}  // namespace
