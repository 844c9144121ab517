// links: gpu_cuda
// That libcuda.so.1 of the software device has every function that NVIDIA's has, and that each is found by
// its name and version.
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#undef __CUDA_API_VERSION_INTERNAL
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <regex>
#include <set>
#include <string>

#include "tests/unit/gpu/paths.h"

namespace {

std::set<std::string> names_of(const std::string& library) {
  std::set<std::string> names;
  std::unique_ptr<FILE, int (*)(FILE*)> lines(popen(("nm -D --defined-only " + library).c_str(), "r"),
                                              pclose);
  std::array<char, 512> line;
  while (lines && std::fgets(line.data(), line.size(), lines.get())) {
    std::string text = line.data();
    size_t begin = text.rfind(' ') + 1;
    std::string name = text.substr(begin, text.find_first_of("@\n", begin) - begin);
    if (name.rfind("cu", 0) == 0) names.insert(name);
  }
  return names;
}

std::string own_path() {
  Dl_info info;
  return dladdr(reinterpret_cast<void*>(&cuInit), &info) ? info.dli_fname : "";
}

CUresult find(const char* name, int version, cuuint64_t flags, void** function,
              CUdriverProcAddressQueryResult* status = nullptr) {
  return cuGetProcAddress_v2(name, function, version, flags, status);
}

TEST(Libcuda, ExportsWhatNvidiasStubExports) {
  std::string stub = CROPDL_CUDA_ROOT "/lib64/stubs/libcuda.so";
  if (!std::ifstream(stub)) GTEST_SKIP() << "this toolkit has no stub libraries";
  std::set<std::string> theirs = names_of(stub), ours = names_of(own_path());
  EXPECT_GT(theirs.size(), 600u);
  for (const std::string& name : theirs) EXPECT_TRUE(ours.count(name)) << name;
  for (const std::string& name : ours) EXPECT_TRUE(theirs.count(name)) << name << " is nobody's";
}

TEST(Table, NamesTheSameFunctionsFromTheHeadersAlone) {
  std::string stub = CROPDL_CUDA_ROOT "/lib64/stubs/libcuda.so";
  if (!std::ifstream(stub))
    GTEST_SKIP() << "this toolkit has no stub libraries: there is nothing to compare with";
  std::string out = testing::TempDir() + "software_gpu_table";
  std::string command = "mkdir -p " + out + " && python3 " + kMakeTable +
                        " cuda --include " CROPDL_CUDA_ROOT
                        "/include --header cuda.h --header cudaProfiler.h --prefix cu --status-type CUresult"
                        " --status 801 --out " +
                        out;
  ASSERT_EQ(std::system(command.c_str()), 0);
  std::set<std::string> names;
  std::ifstream map(out + "/cuda.map");
  for (std::string line; std::getline(map, line);)
    if (line.rfind("    cu", 0) == 0) names.insert(line.substr(4, line.size() - 5));
  EXPECT_EQ(names, names_of(stub));
}

TEST(Libcuda, FindsEveryFunctionOfTheTypedefs) {
  std::ifstream header(CROPDL_CUDA_ROOT "/include/cudaTypedefs.h");
  ASSERT_TRUE(header);
  std::regex typedef_of(R"(\*PFN_(cu\w+?)_v(\d+)(_pt[sd][sz])?\))");
  int checked = 0;
  for (std::string line; std::getline(header, line);) {
    std::smatch found;
    if (!std::regex_search(line, found, typedef_of)) continue;
    ++checked;
    std::string name = found[1], suffix = found[3];
    int version = std::stoi(found[2]);
    void* function = nullptr;
    CUdriverProcAddressQueryResult status;
    cuuint64_t flags =
        suffix.empty() ? CU_GET_PROC_ADDRESS_LEGACY_STREAM : CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
    ASSERT_EQ(find(name.c_str(), version, flags, &function, &status), CUDA_SUCCESS) << line;
    ASSERT_NE(function, nullptr) << line;
    EXPECT_EQ(status, CU_GET_PROC_ADDRESS_SUCCESS);
    // It is a function of that name, with a version or not, and of that default stream.
    Dl_info info;
    ASSERT_TRUE(dladdr(function, &info) && info.dli_sname) << line;
    EXPECT_TRUE(std::regex_match(info.dli_sname, std::regex(name + "(_v\\d)?" + suffix)))
        << line << ": " << info.dli_sname;
  }
  EXPECT_GT(checked, 500);
}

TEST(Libcuda, FindsTheVersionThatWasAskedFor) {
  void *old = nullptr, *young = nullptr, *newest = nullptr;
  EXPECT_EQ(find("cuCtxCreate", 2000, 0, &old), CUDA_SUCCESS);
  EXPECT_EQ(find("cuCtxCreate", 11039, 0, &young), CUDA_SUCCESS);
  EXPECT_EQ(find("cuCtxCreate", 13000, 0, &newest), CUDA_SUCCESS);
  EXPECT_EQ(old, reinterpret_cast<void*>(&cuCtxCreate));
  EXPECT_EQ(young, reinterpret_cast<void*>(&cuCtxCreate_v2));
  EXPECT_EQ(newest, reinterpret_cast<void*>(&cuCtxCreate_v4));
}

TEST(Libcuda, FindsTheDefaultStreamThatWasAskedFor) {
  void *legacy = nullptr, *own = nullptr, *only = nullptr;
  EXPECT_EQ(find("cuLaunchKernel", 12000, CU_GET_PROC_ADDRESS_LEGACY_STREAM, &legacy), CUDA_SUCCESS);
  EXPECT_EQ(find("cuLaunchKernel", 12000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, &own), CUDA_SUCCESS);
  EXPECT_EQ(legacy, reinterpret_cast<void*>(&cuLaunchKernel));
  EXPECT_EQ(own, dlsym(RTLD_DEFAULT, "cuLaunchKernel_ptsz"));
  EXPECT_EQ(find("cuInit", 12000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, &only), CUDA_SUCCESS);
  EXPECT_EQ(only, reinterpret_cast<void*>(&cuInit));
}

TEST(Libcuda, ReportsAFunctionThatItDoesNotFind) {
  void* function = &function;
  CUdriverProcAddressQueryResult status;
  EXPECT_EQ(find("cuNobodyKnows", 12000, 0, &function, &status), CUDA_SUCCESS);
  EXPECT_EQ(function, nullptr);
  EXPECT_EQ(status, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
  EXPECT_EQ(find("cuMemAllocAsync", 11010, 0, &function, &status), CUDA_SUCCESS);
  EXPECT_EQ(function, nullptr);
  EXPECT_EQ(status, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
  EXPECT_EQ(find("cuInit", 99000, 0, &function), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(find("cuInit", 12000, 8, &function), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(find(nullptr, 12000, 0, &function), CUDA_ERROR_INVALID_VALUE);
}

TEST(Libcuda, NamesAnUnsupportedFunctionOnce) {
  testing::internal::CaptureStderr();
  const void* table = nullptr;
  CUuuid id{};
  EXPECT_EQ(cuGetExportTable(&table, &id), CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(cuGetExportTable(&table, &id), CUDA_ERROR_NOT_SUPPORTED);
  std::string said = testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("cuGetExportTable"), std::string::npos);
  EXPECT_EQ(said.find("cuGetExportTable"), said.rfind("cuGetExportTable"));
}

}  // namespace
