// links: gpu_cuda
// Modules, libraries, functions and linking as libcuda.so.1 has them, on PTX texts written here.
#include <cuda.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

namespace {

const char* const kText = R"(.version 9.0
.target sm_75
.address_size 64
.visible .global .align 4 .u32 counter = 7;
.visible .global .align 8 .u64 pointers[2] = {generic(counter), generic(counter)+4};
.visible .global .align 1 .b8 bytes[9] = {1, 2, 3};
.visible .const .align 4 .f32 weights[3] = {0f3F800000, 0f40000000, 0f40400000};
.visible .global .align 4 .u32 room[1000];
.visible .global .align 8 .u64 called = square;
.func (.param .b32 result) square(.param .b32 value)
{
  .reg .b32 %r<3>;
  ld.param.u32 %r1, [value];
  mul.lo.s32 %r2, %r1, %r1;
  st.param.b32 [result], %r2;
  ret;
}
.visible .entry add(.param .u64 add_param_0, .param .u32 add_param_1)
{
  .reg .b32 %r<4>;
  .reg .b64 %rd<3>;
  ld.param.u64 %rd1, [add_param_0];
  ld.param.u32 %r1, [add_param_1];
  cvta.to.global.u64 %rd2, %rd1;
  ld.global.u32 %r2, [%rd2];
  add.s32 %r3, %r2, %r1;
  st.global.u32 [%rd2], %r3;
  ret;
}
.visible .entry bounded(.param .u32 bounded_param_0, .param .align 8 .b8 bounded_param_1[24])
.maxntid 128, 1, 1
{
  .reg .b32 %r<2>;
  .shared .align 4 .b8 tile[4096];
  mov.u32 %r1, 1;
  st.shared.u32 [tile+4092], %r1;
  ret;
}
.visible .entry count()
{
  .reg .b32 %r<2>;
  ld.global.u32 %r1, [counter];
  add.s32 %r1, %r1, 1;
  st.global.u32 [counter], %r1;
  ret;
}
)";

std::string with_managed() {
  std::string text = kText;
  return text + ".visible .global .attribute(.managed) .align 4 .u32 shared_by_all = 5;\n";
}

class Modules : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(cuInit(0), CUDA_SUCCESS);
    ASSERT_EQ(cuCtxCreate(&context_, nullptr, 0, 0), CUDA_SUCCESS);
  }
  void TearDown() override { cuCtxDestroy(context_); }

  template <class T>
  T value_of(CUmodule module, const char* name, size_t index = 0) {
    CUdeviceptr address = 0;
    size_t size = 0;
    EXPECT_EQ(cuModuleGetGlobal(&address, &size, module, name), CUDA_SUCCESS) << name;
    T value{};
    EXPECT_EQ(cuMemcpyDtoH(&value, address + index * sizeof(T), sizeof value), CUDA_SUCCESS) << name;
    return value;
  }

  CUcontext context_ = nullptr;
};

// A restart loads what is there, in the same order: function pointers that memory holds must be true again.
TEST_F(Modules, HaveFunctionAddressesThatDependOnlyOnLoadedCode) {
  const auto load = [] {
    CUmodule module = nullptr;
    EXPECT_EQ(cuModuleLoadData(&module, kText), CUDA_SUCCESS);
    return module;
  };
  const auto square = [&](CUmodule module) { return value_of<uint64_t>(module, "called"); };
  const CUmodule first = load();
  const uint64_t at = square(first);
  EXPECT_EQ(cuModuleUnload(first), CUDA_SUCCESS);
  const CUmodule alone = load();
  EXPECT_EQ(square(alone), at);
  const CUmodule second = load(), third = load();
  const uint64_t at_second = square(second), at_third = square(third);
  EXPECT_NE(at_second, at_third);
  EXPECT_EQ(cuModuleUnload(alone), CUDA_SUCCESS);
  EXPECT_EQ(square(load()), at);
  EXPECT_EQ(cuModuleUnload(third), CUDA_SUCCESS);
  EXPECT_EQ(cuModuleUnload(second), CUDA_SUCCESS);
  EXPECT_EQ(square(load()), at_second);
}

TEST_F(Modules, VariablesBeginAsTheTextSays) {
  CUmodule module;
  ASSERT_EQ(cuModuleLoadData(&module, kText), CUDA_SUCCESS);
  EXPECT_EQ(value_of<uint32_t>(module, "counter"), 7u);
  CUdeviceptr counter = 0;
  size_t size = 0;
  ASSERT_EQ(cuModuleGetGlobal(&counter, &size, module, "counter"), CUDA_SUCCESS);
  EXPECT_EQ(size, 4u);
  EXPECT_EQ(value_of<uint64_t>(module, "pointers", 0), counter);
  EXPECT_EQ(value_of<uint64_t>(module, "pointers", 1), counter + 4);
  EXPECT_EQ(value_of<uint8_t>(module, "bytes", 2), 3);
  EXPECT_EQ(value_of<uint8_t>(module, "bytes", 8), 0);
  EXPECT_EQ(value_of<float>(module, "weights", 2), 3.0f);
  EXPECT_EQ(value_of<uint32_t>(module, "room", 999), 0u);
  EXPECT_NE(value_of<uint64_t>(module, "called"), 0u);
  ASSERT_EQ(cuModuleGetGlobal(nullptr, &size, module, "room"), CUDA_SUCCESS);
  EXPECT_EQ(size, 4000u);
  EXPECT_EQ(cuModuleGetGlobal(nullptr, nullptr, module, "room"), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuModuleGetGlobal(&counter, &size, module, "nothing"), CUDA_ERROR_NOT_FOUND);
  EXPECT_EQ(cuMemFree(counter), CUDA_ERROR_INVALID_VALUE);  // the module's
  EXPECT_EQ(cuModuleUnload(module), CUDA_SUCCESS);
}

TEST_F(Modules, EachLoadHasVariablesOfItsOwnAndGivesThemBack) {
  size_t before = 0, after = 0, total = 0;
  CUmodule one, two;
  ASSERT_EQ(cuModuleLoadData(&one, kText), CUDA_SUCCESS);
  ASSERT_EQ(cuMemGetInfo(&before, &total), CUDA_SUCCESS);
  ASSERT_EQ(cuModuleLoadData(&two, kText), CUDA_SUCCESS);
  CUdeviceptr first = 0, second = 0;
  ASSERT_EQ(cuModuleGetGlobal(&first, nullptr, one, "counter"), CUDA_SUCCESS);
  ASSERT_EQ(cuModuleGetGlobal(&second, nullptr, two, "counter"), CUDA_SUCCESS);
  EXPECT_NE(first, second);
  uint32_t value = 11;
  ASSERT_EQ(cuMemcpyHtoD(first, &value, sizeof value), CUDA_SUCCESS);
  EXPECT_EQ(value_of<uint32_t>(two, "counter"), 7u);
  EXPECT_EQ(cuModuleUnload(two), CUDA_SUCCESS);
  EXPECT_NE(cuMemcpyDtoH(&value, second, sizeof value), CUDA_SUCCESS);
  ASSERT_EQ(cuMemGetInfo(&after, &total), CUDA_SUCCESS);
  EXPECT_EQ(before, after);
  EXPECT_EQ(cuModuleUnload(one), CUDA_SUCCESS);
}

TEST_F(Modules, StaleHandlesAreFoundOut) {
  CUmodule module;
  CUfunction function;
  ASSERT_EQ(cuModuleLoadData(&module, kText), CUDA_SUCCESS);
  ASSERT_EQ(cuModuleGetFunction(&function, module, "add"), CUDA_SUCCESS);
  ASSERT_EQ(cuModuleUnload(module), CUDA_SUCCESS);
  int value = 0;
  EXPECT_EQ(cuModuleUnload(module), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(cuModuleGetFunction(&function, module, "add"), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_NUM_REGS, function), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr),
            CUDA_ERROR_INVALID_HANDLE);
}

TEST_F(Modules, FunctionsAreFoundCountedAndNamed) {
  CUmodule module, of;
  ASSERT_EQ(cuModuleLoadData(&module, kText), CUDA_SUCCESS);
  CUfunction add, again, all[3] = {};
  ASSERT_EQ(cuModuleGetFunction(&add, module, "add"), CUDA_SUCCESS);
  ASSERT_EQ(cuModuleGetFunction(&again, module, "add"), CUDA_SUCCESS);
  EXPECT_EQ(add, again);
  EXPECT_EQ(cuModuleGetFunction(&again, module, "square"), CUDA_ERROR_NOT_FOUND);  // not a kernel
  unsigned count = 0;
  EXPECT_EQ(cuModuleGetFunctionCount(&count, module), CUDA_SUCCESS);
  ASSERT_EQ(count, 3u);
  EXPECT_EQ(cuModuleEnumerateFunctions(all, 3, module), CUDA_SUCCESS);
  EXPECT_EQ(all[0], add);
  const char* name = nullptr;
  EXPECT_EQ(cuFuncGetName(&name, all[1]), CUDA_SUCCESS);
  EXPECT_STREQ(name, "bounded");
  EXPECT_EQ(cuFuncGetModule(&of, add), CUDA_SUCCESS);
  EXPECT_EQ(of, module);
}

TEST_F(Modules, AFunctionReportsItsNeeds) {
  CUmodule module;
  CUfunction add, bounded;
  ASSERT_EQ(cuModuleLoadData(&module, kText), CUDA_SUCCESS);
  ASSERT_EQ(cuModuleGetFunction(&add, module, "add"), CUDA_SUCCESS);
  ASSERT_EQ(cuModuleGetFunction(&bounded, module, "bounded"), CUDA_SUCCESS);
  auto attribute = [](CUfunction function, CUfunction_attribute which) {
    int value = -1;
    EXPECT_EQ(cuFuncGetAttribute(&value, which, function), CUDA_SUCCESS);
    return value;
  };
  EXPECT_EQ(attribute(add, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK), 1024);
  EXPECT_EQ(attribute(bounded, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK), 128);
  EXPECT_EQ(attribute(bounded, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES), 4096);
  EXPECT_EQ(attribute(add, CU_FUNC_ATTRIBUTE_PTX_VERSION), 75);
  EXPECT_EQ(attribute(add, CU_FUNC_ATTRIBUTE_BINARY_VERSION), 90);
  EXPECT_GT(attribute(add, CU_FUNC_ATTRIBUTE_NUM_REGS), 0);
  EXPECT_EQ(attribute(bounded, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES), 49152 - 4096);
  EXPECT_EQ(cuFuncSetAttribute(bounded, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 100000),
            CUDA_SUCCESS);
  EXPECT_EQ(attribute(bounded, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES), 100000);
  EXPECT_EQ(cuFuncSetAttribute(bounded, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 227 * 1024),
            CUDA_ERROR_INVALID_VALUE);  // with its own 4 KiB too much
  EXPECT_EQ(cuFuncSetAttribute(bounded, CU_FUNC_ATTRIBUTE_NUM_REGS, 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuFuncSetAttribute(bounded, CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, 101),
            CUDA_ERROR_INVALID_VALUE);
  size_t offset = 0, size = 0;
  EXPECT_EQ(cuFuncGetParamInfo(add, 1, &offset, &size), CUDA_SUCCESS);
  EXPECT_EQ(offset, 8u);
  EXPECT_EQ(size, 4u);
  EXPECT_EQ(cuFuncGetParamInfo(bounded, 1, &offset, &size), CUDA_SUCCESS);
  EXPECT_EQ(offset, 8u);
  EXPECT_EQ(size, 24u);
  EXPECT_EQ(cuFuncGetParamInfo(add, 2, &offset, &size), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(Modules, OccupancyFollowsFromThreadsAndMemory) {
  CUmodule module;
  CUfunction add;
  ASSERT_EQ(cuModuleLoadData(&module, kText), CUDA_SUCCESS);
  ASSERT_EQ(cuModuleGetFunction(&add, module, "add"), CUDA_SUCCESS);
  int blocks = -1, grid = 0, block = 0;
  EXPECT_EQ(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, add, 1024, 0), CUDA_SUCCESS);
  EXPECT_EQ(blocks, 2);
  EXPECT_EQ(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, add, 32, 0), CUDA_SUCCESS);
  EXPECT_EQ(blocks, 32);
  EXPECT_EQ(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, add, 2048, 0), CUDA_SUCCESS);
  EXPECT_EQ(blocks, 0);
  EXPECT_EQ(cuOccupancyMaxPotentialBlockSize(&grid, &block, add, nullptr, 0, 0), CUDA_SUCCESS);
  EXPECT_EQ(block, 1024);
  EXPECT_EQ(grid, 2 * 4);
  size_t available = 0;
  EXPECT_EQ(cuOccupancyAvailableDynamicSMemPerBlock(&available, add, 2, 128), CUDA_SUCCESS);
  EXPECT_EQ(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, add, 128, available), CUDA_SUCCESS);
  EXPECT_GE(blocks, 2);
  EXPECT_EQ(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, add, 128, available + 1), CUDA_SUCCESS);
  EXPECT_LT(blocks, 2);
}

TEST_F(Modules, AKernelRunsOnTheModulesVariables) {
  CUmodule module;
  CUfunction add, count;
  ASSERT_EQ(cuModuleLoadData(&module, kText), CUDA_SUCCESS);
  ASSERT_EQ(cuModuleGetFunction(&add, module, "add"), CUDA_SUCCESS);
  ASSERT_EQ(cuModuleGetFunction(&count, module, "count"), CUDA_SUCCESS);
  CUdeviceptr counter = 0;
  ASSERT_EQ(cuModuleGetGlobal(&counter, nullptr, module, "counter"), CUDA_SUCCESS);
  unsigned more = 30;
  void* arguments[] = {&counter, &more};
  ASSERT_EQ(cuLaunchKernel(add, 1, 1, 1, 1, 1, 1, 0, nullptr, arguments, nullptr), CUDA_SUCCESS);
  ASSERT_EQ(cuLaunchKernel(count, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr), CUDA_SUCCESS);
  ASSERT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
  EXPECT_EQ(value_of<uint32_t>(module, "counter"), 38u);
}

TEST_F(Modules, InvalidImagesAreRefusedWithALine) {
  CUmodule module;
  char errors[512] = "";
  CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  auto load = [&](const void* image) {
    void* values[] = {errors, reinterpret_cast<void*>(sizeof errors)};
    CUresult result = cuModuleLoadDataEx(&module, image, 2, options, values);
    EXPECT_EQ(reinterpret_cast<size_t>(values[1]), *errors ? std::strlen(errors) + 1 : 0);
    return result;
  };
  EXPECT_EQ(load(".version 9.0\n.target sm_75\n.address_size 64\n.visible .entry broken( {\n"),
            CUDA_ERROR_INVALID_PTX);
  EXPECT_NE(std::string(errors).find("line 4"), std::string::npos) << errors;
  std::string machine_code = std::string(
                                 "\x7f"
                                 "ELF\2\1\1",
                                 7) +
                             std::string(4096, '\0');
  EXPECT_EQ(load(machine_code.data()), CUDA_ERROR_NO_BINARY_FOR_GPU);
  EXPECT_NE(std::string(errors).find("nvcc"), std::string::npos) << errors;
  EXPECT_EQ(load("this is no code at all"), CUDA_ERROR_INVALID_PTX) << errors;
  EXPECT_EQ(load(""), CUDA_ERROR_INVALID_IMAGE) << errors;
  EXPECT_EQ(load(".version 9.1\n.target sm_75\n.address_size 64\n"), CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
  EXPECT_NE(std::string(errors).find("9.1"), std::string::npos) << errors;
  EXPECT_EQ(load(".version 9.0\n.target sm_75\n.address_size 64\n.extern .global .u32 lost;\n"),
            CUDA_ERROR_INVALID_PTX);
  EXPECT_NE(std::string(errors).find("lost"), std::string::npos) << errors;
  EXPECT_EQ(load(kText), CUDA_SUCCESS);
  EXPECT_STREQ(errors, "");
  EXPECT_EQ(cuModuleLoadData(&module, nullptr), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuModuleLoad(&module, "/nowhere/at/all.ptx"), CUDA_ERROR_FILE_NOT_FOUND);
  CUjit_option unknown[] = {static_cast<CUjit_option>(1000)};
  void* nothing[] = {nullptr};
  EXPECT_EQ(cuModuleLoadDataEx(&module, kText, 1, unknown, nothing), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(Modules, AKernelWithAnUnknownInstructionFailsAloneAndWhenItIsUsed) {
  std::string text =
      std::string(kText) +
      ".visible .entry strange()\n{\n  .reg .b32 %r<2>;\n  frobnicate.s32 %r1, %r1;\n  ret;\n}\n";
  CUmodule module;
  CUfunction strange, count;
  ASSERT_EQ(cuModuleLoadData(&module, text.c_str()), CUDA_SUCCESS);
  ASSERT_EQ(cuModuleGetFunction(&strange, module, "strange"), CUDA_SUCCESS);
  ASSERT_EQ(cuModuleGetFunction(&count, module, "count"), CUDA_SUCCESS);
  testing::internal::CaptureStderr();
  EXPECT_EQ(cuLaunchKernel(strange, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr),
            CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(cuFuncLoad(strange), CUDA_ERROR_NOT_SUPPORTED);
  std::string said = testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("frobnicate"), std::string::npos) << said;
  EXPECT_NE(said.find("strange"), std::string::npos) << said;
  EXPECT_EQ(cuLaunchKernel(count, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
}

TEST_F(Modules, ManyThreadsLoadLaunchAndUnload) {
  CUlibrary library;
  ASSERT_EQ(cuLibraryLoadData(&library, kText, nullptr, nullptr, 0, nullptr, nullptr, 0), CUDA_SUCCESS);
  std::vector<std::thread> threads;
  for (int number = 0; number < 4; ++number)
    threads.emplace_back([&, number] {
      CUcontext own = context_;
      // Two of them share the context, two have their own.
      if (number < 2)
        ASSERT_EQ(cuCtxSetCurrent(context_), CUDA_SUCCESS);
      else
        ASSERT_EQ(cuCtxCreate(&own, nullptr, 0, 0), CUDA_SUCCESS);
      for (int round = 0; round < 5; ++round) {
        CUmodule module;
        CUfunction count;
        CUkernel kernel;
        ASSERT_EQ(cuModuleLoadData(&module, kText), CUDA_SUCCESS);
        ASSERT_EQ(cuModuleGetFunction(&count, module, "count"), CUDA_SUCCESS);
        ASSERT_EQ(cuLibraryGetKernel(&kernel, library, "count"), CUDA_SUCCESS);
        for (CUfunction function : {count, reinterpret_cast<CUfunction>(kernel), count})
          ASSERT_EQ(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr), CUDA_SUCCESS);
        ASSERT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
        EXPECT_EQ(value_of<uint32_t>(module, "counter"), 9u);
        ASSERT_EQ(cuModuleUnload(module), CUDA_SUCCESS);
      }
      CUdeviceptr counter = 0;
      uint32_t value = 0;
      ASSERT_EQ(cuLibraryGetGlobal(&counter, nullptr, library, "counter"), CUDA_SUCCESS);
      ASSERT_EQ(cuMemcpyDtoH(&value, counter, sizeof value), CUDA_SUCCESS);
      if (number >= 2) {
        EXPECT_EQ(value, 7u + 5u);
        EXPECT_EQ(cuCtxDestroy(own), CUDA_SUCCESS);
      }
    });
  for (std::thread& thread : threads) thread.join();
  CUdeviceptr counter = 0;
  uint32_t value = 0;
  ASSERT_EQ(cuLibraryGetGlobal(&counter, nullptr, library, "counter"), CUDA_SUCCESS);
  ASSERT_EQ(cuMemcpyDtoH(&value, counter, sizeof value), CUDA_SUCCESS);
  EXPECT_EQ(value, 7u + 2 * 5u);
  EXPECT_EQ(cuLibraryUnload(library), CUDA_SUCCESS);
}

TEST_F(Modules, AFileIsLoadedLikeData) {
  std::string path = testing::TempDir() + "software_gpu_module_test.ptx";
  std::ofstream(path) << kText;
  CUmodule module;
  ASSERT_EQ(cuModuleLoad(&module, path.c_str()), CUDA_SUCCESS);
  EXPECT_EQ(value_of<uint32_t>(module, "counter"), 7u);
  std::remove(path.c_str());
}

TEST_F(Modules, AFunctionIsOfItsContextOnly) {
  CUmodule module;
  CUfunction count;
  ASSERT_EQ(cuModuleLoadData(&module, kText), CUDA_SUCCESS);
  ASSERT_EQ(cuModuleGetFunction(&count, module, "count"), CUDA_SUCCESS);
  CUcontext other;
  ASSERT_EQ(cuCtxCreate(&other, nullptr, 0, 0), CUDA_SUCCESS);
  EXPECT_EQ(cuLaunchKernel(count, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(cuCtxDestroy(other), CUDA_SUCCESS);
}

TEST_F(Modules, ALibraryIsAModuleInEachContext) {
  CUlibrary library, of;
  CUkernel count;
  std::string text = with_managed();
  ASSERT_EQ(cuLibraryLoadData(&library, text.c_str(), nullptr, nullptr, 0, nullptr, nullptr, 0),
            CUDA_SUCCESS);
  ASSERT_EQ(cuLibraryGetKernel(&count, library, "count"), CUDA_SUCCESS);
  EXPECT_EQ(cuLibraryGetKernel(&count, library, "nothing"), CUDA_ERROR_NOT_FOUND);
  EXPECT_EQ(cuKernelGetLibrary(&of, count), CUDA_SUCCESS);
  EXPECT_EQ(of, library);
  unsigned kernels = 0;
  EXPECT_EQ(cuLibraryGetKernelCount(&kernels, library), CUDA_SUCCESS);
  EXPECT_EQ(kernels, 3u);
  CUfunction here, there;
  CUdeviceptr counter_here = 0, counter_there = 0, managed_here = 0, managed_there = 0;
  size_t size = 0;
  ASSERT_EQ(cuKernelGetFunction(&here, count), CUDA_SUCCESS);
  ASSERT_EQ(cuLibraryGetGlobal(&counter_here, &size, library, "counter"), CUDA_SUCCESS);
  ASSERT_EQ(cuLibraryGetManaged(&managed_here, &size, library, "shared_by_all"), CUDA_SUCCESS);
  EXPECT_EQ(cuLibraryGetManaged(&managed_here, &size, library, "counter"), CUDA_ERROR_NOT_FOUND);
  CUcontext other;
  ASSERT_EQ(cuCtxCreate(&other, nullptr, 0, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuKernelGetFunction(&there, count), CUDA_SUCCESS);
  ASSERT_EQ(cuLibraryGetGlobal(&counter_there, &size, library, "counter"), CUDA_SUCCESS);
  ASSERT_EQ(cuLibraryGetManaged(&managed_there, &size, library, "shared_by_all"), CUDA_SUCCESS);
  EXPECT_NE(here, there);
  EXPECT_NE(counter_here, counter_there);
  EXPECT_EQ(managed_here, managed_there);
  EXPECT_EQ(*reinterpret_cast<uint32_t*>(managed_here), 5u);
  // A kernel's handle may be launched as a function.
  ASSERT_EQ(
      cuLaunchKernel(reinterpret_cast<CUfunction>(count), 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr),
      CUDA_SUCCESS);
  ASSERT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
  uint32_t value = 0;
  EXPECT_EQ(cuMemcpyDtoH(&value, counter_there, 4), CUDA_SUCCESS);
  EXPECT_EQ(value, 8u);
  EXPECT_EQ(cuMemcpyDtoH(&value, counter_here, 4), CUDA_SUCCESS);
  EXPECT_EQ(value, 7u);
  EXPECT_EQ(cuCtxDestroy(other), CUDA_SUCCESS);
  ASSERT_EQ(cuKernelGetFunction(&there, count), CUDA_SUCCESS);
  EXPECT_EQ(there, here);
  EXPECT_EQ(cuLibraryUnload(library), CUDA_SUCCESS);
  EXPECT_EQ(cuLibraryUnload(library), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(cuKernelGetFunction(&there, count), CUDA_ERROR_INVALID_HANDLE);
}

TEST_F(Modules, AKernelsAttributesHoldForItsFunctionsUnlessTheyHaveTheirOwn) {
  CUlibrary library;
  CUkernel bounded;
  CUfunction function;
  int value = 0;
  ASSERT_EQ(cuLibraryLoadData(&library, kText, nullptr, nullptr, 0, nullptr, nullptr, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuLibraryGetKernel(&bounded, library, "bounded"), CUDA_SUCCESS);
  ASSERT_EQ(cuKernelGetFunction(&function, bounded), CUDA_SUCCESS);
  const auto kDynamic = CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
  ASSERT_EQ(cuKernelSetAttribute(kDynamic, 60000, bounded, 0), CUDA_SUCCESS);
  EXPECT_EQ(cuFuncGetAttribute(&value, kDynamic, function), CUDA_SUCCESS);
  EXPECT_EQ(value, 60000);
  ASSERT_EQ(cuFuncSetAttribute(function, kDynamic, 70000), CUDA_SUCCESS);
  ASSERT_EQ(cuKernelSetAttribute(kDynamic, 50000, bounded, 0), CUDA_SUCCESS);
  EXPECT_EQ(cuFuncGetAttribute(&value, kDynamic, function), CUDA_SUCCESS);
  EXPECT_EQ(value, 70000);
  EXPECT_EQ(cuKernelGetAttribute(&value, kDynamic, bounded, 0), CUDA_SUCCESS);
  EXPECT_EQ(value, 50000);
  EXPECT_EQ(cuKernelGetAttribute(&value, kDynamic, bounded, 99), CUDA_ERROR_INVALID_DEVICE);
  EXPECT_EQ(cuLibraryUnload(library), CUDA_SUCCESS);
}

TEST_F(Modules, PartsAreLinkedIntoAnImage) {
  const std::string head = ".version 9.0\n.target sm_75\n.address_size 64\n";
  std::string user = head +
                     ".extern .func (.param .b32 result) cube(.param .b32 value);\n"
                     ".extern .global .align 4 .u32 stored;\n"
                     ".visible .entry store()\n{\n"
                     "  .reg .b32 %r<3>;\n"
                     "  mov.u32 %r1, 3;\n"
                     "  { .param .b32 argument; .param .b32 returned;\n"
                     "  st.param.b32 [argument], %r1;\n"
                     "  call.uni (returned), cube, (argument);\n"
                     "  ld.param.b32 %r2, [returned]; }\n"
                     "  st.global.u32 [stored], %r2;\n  ret;\n}\n";
  std::string provider = head +
                         ".visible .global .align 4 .u32 stored;\n"
                         ".visible .func (.param .b32 result) cube(.param .b32 value)\n{\n"
                         "  .reg .b32 %r<4>;\n"
                         "  ld.param.u32 %r1, [value];\n"
                         "  mul.lo.s32 %r2, %r1, %r1;\n"
                         "  mul.lo.s32 %r3, %r2, %r1;\n"
                         "  st.param.b32 [result], %r3;\n  ret;\n}\n";
  CUlinkState link;
  char errors[512] = "";
  CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  void* values[] = {errors, reinterpret_cast<void*>(sizeof errors)};
  ASSERT_EQ(cuLinkCreate(2, options, values, &link), CUDA_SUCCESS);
  auto add = [&](std::string& text) {
    return cuLinkAddData(link, CU_JIT_INPUT_PTX, text.data(), text.size() + 1, "part", 0, nullptr, nullptr);
  };
  void* image = nullptr;
  size_t size = 0;
  EXPECT_EQ(cuLinkComplete(link, &image, &size), CUDA_ERROR_INVALID_VALUE);  // of nothing
  ASSERT_EQ(add(user), CUDA_SUCCESS) << errors;
  EXPECT_NE(cuLinkComplete(link, &image, &size), CUDA_SUCCESS);  // parts are missing
  EXPECT_NE(std::string(errors).find("stored"), std::string::npos) << errors;
  ASSERT_EQ(add(provider), CUDA_SUCCESS) << errors;
  ASSERT_EQ(cuLinkComplete(link, &image, &size), CUDA_SUCCESS) << errors;
  std::vector<char> copy(static_cast<char*>(image), static_cast<char*>(image) + size);
  EXPECT_EQ(cuLinkDestroy(link), CUDA_SUCCESS);
  EXPECT_EQ(cuLinkDestroy(link), CUDA_ERROR_INVALID_HANDLE);
  CUmodule module;
  CUfunction store;
  ASSERT_EQ(cuModuleLoadData(&module, copy.data()), CUDA_SUCCESS);
  ASSERT_EQ(cuModuleGetFunction(&store, module, "store"), CUDA_SUCCESS);
  ASSERT_EQ(cuLaunchKernel(store, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr), CUDA_SUCCESS);
  ASSERT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
  EXPECT_EQ(value_of<uint32_t>(module, "stored"), 27u);
  // A damaged image of ours is refused, not believed.
  copy[37] = static_cast<char>(0xff);
  EXPECT_EQ(cuModuleLoadData(&module, copy.data()), CUDA_ERROR_INVALID_IMAGE);
}

// What nvcc -c writes has the fat binary in this section; the toolkit's tool makes it, the compiler the
// object.
TEST_F(Modules, AnObjectFileIsLinkedByItsFatBinary) {
  const std::string fatbinary = CROPDL_CUDA_ROOT "/bin/fatbinary";
  if (!std::ifstream(fatbinary)) GTEST_SKIP() << "this toolkit is without its tools";
  const std::string base = testing::TempDir() + "software_gpu_object";
  std::ofstream(base + ".ptx") << kText;
  std::ofstream(base + ".s") << ".section .nv_fatbin,\"a\"\n.align 8\n.incbin \"" << base << ".fatbin\"\n";
  const std::string command = fatbinary + " --create=" + base +
                              ".fatbin -64 --image3=kind=ptx,sm=75,file=" + base + ".ptx && c++ -c -o " +
                              base + ".o " + base + ".s";
  ASSERT_EQ(std::system(command.c_str()), 0);
  CUlinkState link;
  void* image = nullptr;
  CUmodule module;
  ASSERT_EQ(cuLinkCreate(0, nullptr, nullptr, &link), CUDA_SUCCESS);
  ASSERT_EQ(cuLinkAddFile(link, CU_JIT_INPUT_OBJECT, (base + ".o").c_str(), 0, nullptr, nullptr),
            CUDA_SUCCESS);
  ASSERT_EQ(cuLinkComplete(link, &image, nullptr), CUDA_SUCCESS);
  ASSERT_EQ(cuModuleLoadData(&module, image), CUDA_SUCCESS);
  EXPECT_EQ(value_of<uint32_t>(module, "counter"), 7u);
  EXPECT_EQ(cuLinkDestroy(link), CUDA_SUCCESS);
  // By itself it is no image, and an object without device code is no part.
  EXPECT_NE(cuModuleLoad(&module, (base + ".o").c_str()), CUDA_SUCCESS);
  ASSERT_EQ(std::system(("echo 'int x;' | c++ -x c++ -c -o " + base + ".o -").c_str()), 0);
  ASSERT_EQ(cuLinkCreate(0, nullptr, nullptr, &link), CUDA_SUCCESS);
  EXPECT_EQ(cuLinkAddFile(link, CU_JIT_INPUT_OBJECT, (base + ".o").c_str(), 0, nullptr, nullptr),
            CUDA_ERROR_NO_BINARY_FOR_GPU);
  EXPECT_EQ(cuLinkDestroy(link), CUDA_SUCCESS);
}

}  // namespace
