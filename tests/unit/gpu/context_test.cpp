// links: gpu_cuda
// Devices and contexts as libcuda.so.1 has them. Whatever depends on the environment or on cuInit not having
// been called runs in a child of its own.
#include <cuda.h>
#include <gtest/gtest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <functional>
#include <set>
#include <string>
#include <thread>

namespace {

// What `ask` returns in a child that has not called cuInit yet.
int in_child(const std::function<int()>& ask) {
  pid_t child = fork();
  if (child == 0) _exit(ask());
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

int count_seen(const char* devices, const char* visible) {
  return in_child([&] {
    setenv("CROPDL_SOFTWARE_GPUS", devices, 1);
    setenv("CROPDL_SOFTWARE_GPU_QUIET", "1", 1);
    if (visible) setenv("CUDA_VISIBLE_DEVICES", visible, 1);
    if (CUresult error = cuInit(0)) return static_cast<int>(error);
    int count = -1;
    cuDeviceGetCount(&count);
    return count;
  });
}

class Contexts : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    setenv("CROPDL_SOFTWARE_GPUS", "2", 1);
    unsetenv("CUDA_VISIBLE_DEVICES");
  }
  void SetUp() override { ASSERT_EQ(cuInit(0), CUDA_SUCCESS); }
  void TearDown() override {
    CUcontext context = nullptr;
    while (cuCtxPopCurrent(&context) == CUDA_SUCCESS) continue;
  }
};

TEST(BeforeInit, EveryCallReturnsNotInitialized) {
  EXPECT_EQ(in_child([] {
              int count = 0;
              CUcontext context = nullptr;
              size_t value = 0;
              return cuDeviceGetCount(&count) == CUDA_ERROR_NOT_INITIALIZED &&
                     cuCtxGetCurrent(&context) == CUDA_ERROR_NOT_INITIALIZED &&
                     cuCtxGetLimit(&value, CU_LIMIT_STACK_SIZE) == CUDA_ERROR_NOT_INITIALIZED &&
                     cuDevicePrimaryCtxRetain(&context, 0) == CUDA_ERROR_NOT_INITIALIZED;
            }),
            1);
}

TEST(BeforeInit, FlagsMustBeZero) { EXPECT_EQ(cuInit(1), CUDA_ERROR_INVALID_VALUE); }

TEST(VisibleDevices, AreCountedUpToTheFirstInvalidOne) {
  EXPECT_EQ(count_seen("4", nullptr), 4);
  EXPECT_EQ(count_seen("4", "2"), 1);
  EXPECT_EQ(count_seen("4", "3,1,0"), 3);
  EXPECT_EQ(count_seen("4", "0,7,1"), 1);
  EXPECT_EQ(count_seen("4", "1,x"), 1);
  EXPECT_EQ(count_seen("4", ""), CUDA_ERROR_NO_DEVICE);
  EXPECT_EQ(count_seen("4", "-1"), CUDA_ERROR_NO_DEVICE);
  EXPECT_EQ(count_seen("4", "1,1"), CUDA_ERROR_NO_DEVICE);
}

TEST(VisibleDevices, KeepTheirIdentifiersInAnyOrder) {
  auto bus_of_first = [](const char* visible) {
    return in_child([&] {
      setenv("CROPDL_SOFTWARE_GPUS", "4", 1);
      setenv("CUDA_VISIBLE_DEVICES", visible, 1);
      cuInit(0);
      int bus = 0;
      cuDeviceGetAttribute(&bus, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, 0);
      CUuuid uuid;
      cuDeviceGetUuid(&uuid, 0);
      return bus + uuid.bytes[15];
    });
  };
  EXPECT_EQ(bus_of_first("2,0"), bus_of_first("2"));
  EXPECT_NE(bus_of_first("2,0"), bus_of_first("0,2"));
}

const char* const kStores = R"(.version 9.0
.target sm_75
.address_size 64
.visible .entry store(.param .u64 where)
{
  .reg .b64 %rd<2>;
  .reg .b32 %r<2>;
  ld.param.u64 %rd1, [where];
  mov.u32 %r1, 1;
  st.global.u32 [%rd1], %r1;
  ret;
}
)";

TEST(Faults, AModuleFailsWhenATesterWantsIt) {
  EXPECT_EQ(in_child([] {
              setenv("CROPDL_SOFTWARE_GPU_FAIL", "module:2:209", 1);
              cuInit(0);
              CUcontext context;
              CUmodule module;
              cuCtxCreate(&context, nullptr, 0, 0);
              return cuModuleLoadData(&module, kStores) == CUDA_SUCCESS &&
                     cuModuleLoadData(&module, kStores) == CUDA_ERROR_NO_BINARY_FOR_GPU &&
                     cuModuleLoadData(&module, kStores) == CUDA_SUCCESS;
            }),
            1);
}

TEST(AfterFork, TheChildHasNoDevices) {
  EXPECT_EQ(in_child([] {
              cuInit(0);
              return in_child([] {
                int count = 0;
                return cuInit(0) == CUDA_ERROR_NOT_INITIALIZED &&
                       cuDeviceGetCount(&count) == CUDA_ERROR_NOT_INITIALIZED;
              });
            }),
            1);
}

TEST_F(Contexts, DevicesHaveDifferentIdentifiers) {
  int count = 0;
  ASSERT_EQ(cuDeviceGetCount(&count), CUDA_SUCCESS);
  ASSERT_EQ(count, 2);
  std::set<std::string> seen;
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    CUdevice device = -1;
    ASSERT_EQ(cuDeviceGet(&device, ordinal), CUDA_SUCCESS);
    char bus[20];
    ASSERT_EQ(cuDeviceGetPCIBusId(bus, sizeof bus, device), CUDA_SUCCESS);
    CUuuid uuid;
    ASSERT_EQ(cuDeviceGetUuid(&uuid, device), CUDA_SUCCESS);
    EXPECT_TRUE(seen.insert(bus).second);
    EXPECT_TRUE(seen.insert(std::string(uuid.bytes, 16)).second);
    CUdevice found = -1;
    EXPECT_EQ(cuDeviceGetByPCIBusId(&found, bus), CUDA_SUCCESS);
    EXPECT_EQ(found, device);
  }
  CUdevice device;
  EXPECT_EQ(cuDeviceGet(&device, count), CUDA_ERROR_INVALID_DEVICE);
  EXPECT_EQ(cuDeviceGet(&device, -1), CUDA_ERROR_INVALID_DEVICE);
  EXPECT_EQ(cuDeviceGetByPCIBusId(&device, "0000:ff:00.0"), CUDA_ERROR_INVALID_DEVICE);
  EXPECT_EQ(cuDeviceGetByPCIBusId(&device, "nonsense"), CUDA_ERROR_INVALID_VALUE);
  char small[5];
  EXPECT_EQ(cuDeviceGetPCIBusId(small, sizeof small, 0), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(Contexts, EveryAttributeHasAValue) {
  for (int which = 1; which < CU_DEVICE_ATTRIBUTE_MAX; ++which) {
    int value = -12345;
    EXPECT_EQ(cuDeviceGetAttribute(&value, static_cast<CUdevice_attribute>(which), 0), CUDA_SUCCESS) << which;
    EXPECT_NE(value, -12345) << which;
  }
  int value;
  EXPECT_EQ(cuDeviceGetAttribute(&value, static_cast<CUdevice_attribute>(0), 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_MAX, 0), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(Contexts, NothingIsCurrentAtFirst) {
  CUcontext context = reinterpret_cast<CUcontext>(1);
  EXPECT_EQ(cuCtxGetCurrent(&context), CUDA_SUCCESS);
  EXPECT_EQ(context, nullptr);
  EXPECT_EQ(cuCtxSynchronize(), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_EQ(cuCtxPopCurrent(&context), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_EQ(cuCtxPushCurrent(reinterpret_cast<CUcontext>(&context)), CUDA_ERROR_INVALID_CONTEXT);
}

TEST_F(Contexts, ThePrimaryOneIsCounted) {
  unsigned flags = 1;
  int active = 1;
  CUcontext first, second;
  ASSERT_EQ(cuDevicePrimaryCtxGetState(0, &flags, &active), CUDA_SUCCESS);
  EXPECT_EQ(active, 0);
  ASSERT_EQ(cuDevicePrimaryCtxSetFlags(0, CU_CTX_SCHED_BLOCKING_SYNC), CUDA_SUCCESS);
  ASSERT_EQ(cuDevicePrimaryCtxRetain(&first, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuDevicePrimaryCtxRetain(&second, 0), CUDA_SUCCESS);
  EXPECT_EQ(first, second);
  ASSERT_EQ(cuCtxSetCurrent(first), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxGetFlags(&flags), CUDA_SUCCESS);
  EXPECT_EQ(flags, CU_CTX_SCHED_BLOCKING_SYNC);
  EXPECT_EQ(cuCtxDestroy(first), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_EQ(cuDevicePrimaryCtxRelease(0), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
  EXPECT_EQ(cuDevicePrimaryCtxRelease(0), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxSynchronize(), CUDA_ERROR_CONTEXT_IS_DESTROYED);
  EXPECT_EQ(cuDevicePrimaryCtxRelease(0), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_EQ(cuDevicePrimaryCtxGetState(0, &flags, &active), CUDA_SUCCESS);
  EXPECT_EQ(active, 0);
  EXPECT_EQ(cuDevicePrimaryCtxSetFlags(0, 0), CUDA_SUCCESS);
  EXPECT_EQ(cuDevicePrimaryCtxSetFlags(0, 3), CUDA_ERROR_INVALID_VALUE);  // two ways to wait
}

TEST_F(Contexts, AResetEndsTheContextAndStartsANewLife) {
  CUcontext context;
  ASSERT_EQ(cuDevicePrimaryCtxRetain(&context, 1), CUDA_SUCCESS);
  ASSERT_EQ(cuCtxSetCurrent(context), CUDA_SUCCESS);
  unsigned long long id = 0, again = 0;
  ASSERT_EQ(cuCtxGetId(nullptr, &id), CUDA_SUCCESS);
  CUdeviceptr memory = 0;
  ASSERT_EQ(cuMemAlloc(&memory, 4096), CUDA_SUCCESS);
  size_t before = 0, after = 0, total = 0;
  ASSERT_EQ(cuMemGetInfo(&before, &total), CUDA_SUCCESS);
  ASSERT_EQ(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 4096), CUDA_SUCCESS);
  EXPECT_EQ(cuDevicePrimaryCtxReset(1), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxSynchronize(), CUDA_ERROR_CONTEXT_IS_DESTROYED);
  ASSERT_EQ(cuDevicePrimaryCtxRetain(&context, 1), CUDA_SUCCESS);
  ASSERT_EQ(cuCtxGetId(nullptr, &again), CUDA_SUCCESS);
  EXPECT_NE(id, again);
  EXPECT_EQ(cuMemFree(memory), CUDA_ERROR_INVALID_VALUE);
  ASSERT_EQ(cuMemGetInfo(&after, &total), CUDA_SUCCESS);
  EXPECT_GT(after, before);
  size_t stack = 0;
  EXPECT_EQ(cuCtxGetLimit(&stack, CU_LIMIT_STACK_SIZE), CUDA_SUCCESS);
  EXPECT_EQ(stack, 1024u);
  EXPECT_EQ(cuDevicePrimaryCtxRelease(1), CUDA_SUCCESS);
  EXPECT_EQ(cuDevicePrimaryCtxRelease(1), CUDA_SUCCESS);
}

TEST_F(Contexts, TheStackIsTheThreads) {
  CUcontext first, second, seen;
  ASSERT_EQ(cuCtxCreate(&first, nullptr, 0, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuCtxCreate(&second, nullptr, 0, 1), CUDA_SUCCESS);
  CUdevice device = -1;
  EXPECT_EQ(cuCtxGetDevice(&device), CUDA_SUCCESS);
  EXPECT_EQ(device, 1);
  std::thread([] {
    CUcontext other = reinterpret_cast<CUcontext>(1);
    EXPECT_EQ(cuCtxGetCurrent(&other), CUDA_SUCCESS);
    EXPECT_EQ(other, nullptr);
    EXPECT_EQ(cuCtxSynchronize(), CUDA_ERROR_INVALID_CONTEXT);
  }).join();
  EXPECT_EQ(cuCtxPopCurrent(&seen), CUDA_SUCCESS);
  EXPECT_EQ(seen, second);
  EXPECT_EQ(cuCtxGetCurrent(&seen), CUDA_SUCCESS);
  EXPECT_EQ(seen, first);
  EXPECT_EQ(cuCtxPushCurrent(second), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxSetCurrent(nullptr), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxGetCurrent(&seen), CUDA_SUCCESS);
  EXPECT_EQ(seen, first);
  EXPECT_EQ(cuCtxDestroy(first), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxGetCurrent(&seen), CUDA_SUCCESS);
  EXPECT_EQ(seen, nullptr);
  EXPECT_EQ(cuCtxDestroy(first), CUDA_ERROR_CONTEXT_IS_DESTROYED);
  EXPECT_EQ(cuCtxDestroy(second), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxDestroy(nullptr), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(Contexts, MemoryGoesWithItsContext) {
  CUcontext lasting, passing;
  ASSERT_EQ(cuCtxCreate(&lasting, nullptr, 0, 0), CUDA_SUCCESS);
  size_t before = 0, during = 0, after = 0, total = 0;
  ASSERT_EQ(cuMemGetInfo(&before, &total), CUDA_SUCCESS);
  ASSERT_EQ(cuCtxCreate(&passing, nullptr, 0, 0), CUDA_SUCCESS);
  CUdeviceptr memory = 0;
  ASSERT_EQ(cuMemAlloc(&memory, 64 << 20), CUDA_SUCCESS);
  ASSERT_EQ(cuMemAllocAsync(&memory, 64 << 20, nullptr), CUDA_SUCCESS);
  ASSERT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
  ASSERT_EQ(cuMemGetInfo(&during, &total), CUDA_SUCCESS);
  EXPECT_LE(during + (128 << 20), before);
  ASSERT_EQ(cuCtxDestroy(passing), CUDA_SUCCESS);
  ASSERT_EQ(cuMemGetInfo(&after, &total), CUDA_SUCCESS);
  EXPECT_EQ(after, before);
  EXPECT_EQ(cuCtxDestroy(lasting), CUDA_SUCCESS);
}

TEST_F(Contexts, LimitsAreCheckedAndKept) {
  CUcontext context;
  ASSERT_EQ(cuCtxCreate(&context, nullptr, 0, 0), CUDA_SUCCESS);
  size_t value = 0;
  EXPECT_EQ(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 2000), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxGetLimit(&value, CU_LIMIT_STACK_SIZE), CUDA_SUCCESS);
  EXPECT_GE(value, 2000u);
  EXPECT_EQ(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, size_t{1} << 30), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuCtxSetLimit(CU_LIMIT_MAX_L2_FETCH_GRANULARITY, 129), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuCtxSetLimit(CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH, 2), CUDA_ERROR_UNSUPPORTED_LIMIT);  // of 9.0
  EXPECT_EQ(cuCtxSetLimit(static_cast<CUlimit>(77), 2), CUDA_ERROR_UNSUPPORTED_LIMIT);
  EXPECT_EQ(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 16 << 20), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxGetLimit(&value, CU_LIMIT_MALLOC_HEAP_SIZE), CUDA_SUCCESS);
  EXPECT_GE(value, size_t{16} << 20);
  EXPECT_EQ(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, ~size_t{0}), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(cuCtxDestroy(context), CUDA_SUCCESS);
}

TEST_F(Contexts, AFaultBreaksItsContextForGoodAndNoOther) {
  CUcontext primary, other;
  CUmodule module;
  CUfunction store;
  ASSERT_EQ(cuDevicePrimaryCtxRetain(&primary, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuCtxSetCurrent(primary), CUDA_SUCCESS);
  ASSERT_EQ(cuModuleLoadData(&module, kStores), CUDA_SUCCESS);
  ASSERT_EQ(cuModuleGetFunction(&store, module, "store"), CUDA_SUCCESS);
  CUdeviceptr memory = 0, nowhere = 64;
  ASSERT_EQ(cuMemAlloc(&memory, 4), CUDA_SUCCESS);
  void* arguments[] = {&nowhere};
  testing::internal::CaptureStderr();
  ASSERT_EQ(cuLaunchKernel(store, 1, 1, 1, 1, 1, 1, 0, nullptr, arguments, nullptr), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
  std::string said = testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("store"), std::string::npos) << said;
  EXPECT_EQ(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_EQ(cuMemAlloc(&memory, 4), CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_EQ(cuMemFree(memory), CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_EQ(cuModuleUnload(module), CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_EQ(cuLaunchKernel(store, 1, 1, 1, 1, 1, 1, 0, nullptr, arguments, nullptr),
            CUDA_ERROR_ILLEGAL_ADDRESS);
  CUdevice device = -1;
  EXPECT_EQ(cuCtxGetDevice(&device), CUDA_SUCCESS);
  ASSERT_EQ(cuCtxCreate(&other, nullptr, 0, 1), CUDA_SUCCESS);
  EXPECT_EQ(cuMemAlloc(&memory, 4), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxDestroy(other), CUDA_SUCCESS);
  EXPECT_EQ(cuDevicePrimaryCtxReset(0), CUDA_SUCCESS);
  ASSERT_EQ(cuDevicePrimaryCtxRetain(&primary, 0), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_EQ(cuDevicePrimaryCtxRelease(0), CUDA_SUCCESS);
  EXPECT_EQ(cuDevicePrimaryCtxRelease(0), CUDA_SUCCESS);
}

TEST_F(Contexts, EveryErrorHasANameAndAText) {
  const char *name = nullptr, *text = nullptr;
  EXPECT_EQ(cuGetErrorName(CUDA_ERROR_ILLEGAL_ADDRESS, &name), CUDA_SUCCESS);
  EXPECT_STREQ(name, "CUDA_ERROR_ILLEGAL_ADDRESS");
  EXPECT_EQ(cuGetErrorString(CUDA_ERROR_ILLEGAL_ADDRESS, &text), CUDA_SUCCESS);
  EXPECT_STREQ(text, "an illegal memory access was encountered");
  EXPECT_EQ(cuGetErrorName(static_cast<CUresult>(12345), &name), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(name, nullptr);
}

}  // namespace
