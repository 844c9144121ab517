// links: gpu_cudart gpu_cuda
// Last errors, devices and what is refused: what needs no memory and no stream.
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cstring>
#include <thread>

extern "C" int cudaGLSetGLDevice(int device);

namespace {

class CudartErrors : public testing::Test {
 protected:
  void SetUp() override { cudaGetLastError(); }
};

TEST_F(CudartErrors, TheLastErrorIsKeptUntilItIsAskedForOnce) {
  EXPECT_EQ(cudaSetDevice(1000), cudaErrorInvalidDevice);
  int count = 0;
  EXPECT_EQ(cudaGetDeviceCount(&count), cudaSuccess);  // success does not hide it
  EXPECT_EQ(cudaPeekAtLastError(), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

TEST_F(CudartErrors, EachThreadHasItsOwnLastError) {
  EXPECT_EQ(cudaSetDevice(-1), cudaErrorInvalidDevice);
  std::thread([] { EXPECT_EQ(cudaGetLastError(), cudaSuccess); }).join();
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidDevice);
}

TEST_F(CudartErrors, NullPointersAreInvalidValues) {
  EXPECT_EQ(cudaGetDeviceCount(nullptr), cudaErrorInvalidValue);
  EXPECT_EQ(cudaGetDevice(nullptr), cudaErrorInvalidValue);
  EXPECT_EQ(cudaRuntimeGetVersion(nullptr), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMalloc(nullptr, 16), cudaErrorInvalidValue);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidValue);
}

TEST_F(CudartErrors, UnsupportedFunctionsSetTheLastError) {
  EXPECT_EQ(cudaGLSetGLDevice(0), cudaErrorNotSupported);
  EXPECT_EQ(cudaGetLastError(), cudaErrorNotSupported);
}

TEST_F(CudartErrors, AnUnregisteredFunctionIsAnError) {
  int somewhere = 0;
  EXPECT_EQ(cudaLaunchKernel(&somewhere, dim3(1), dim3(1), nullptr, 0, nullptr),
            cudaErrorInvalidDeviceFunction);
  cudaFuncAttributes attributes;
  EXPECT_EQ(cudaFuncGetAttributes(&attributes, nullptr), cudaErrorInvalidDeviceFunction);
  void* address = nullptr;
  EXPECT_EQ(cudaGetSymbolAddress(&address, &somewhere), cudaErrorInvalidSymbol);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidSymbol);
}

TEST_F(CudartErrors, APropertyIsTheAttributeOfThatName) {
  cudaDeviceProp properties;
  ASSERT_EQ(cudaGetDeviceProperties(&properties, 0), cudaSuccess);
  EXPECT_STREQ(properties.name, "CropDL software device");
  EXPECT_EQ(properties.warpSize, 32);
  EXPECT_EQ(properties.maxThreadsPerBlock, 1024);
  const auto attribute = [](cudaDeviceAttr which) {
    int value = -1;
    EXPECT_EQ(cudaDeviceGetAttribute(&value, which, 0), cudaSuccess);
    return value;
  };
  EXPECT_EQ(properties.major, attribute(cudaDevAttrComputeCapabilityMajor));
  EXPECT_EQ(properties.multiProcessorCount, attribute(cudaDevAttrMultiProcessorCount));
  EXPECT_EQ(properties.maxGridSize[2], attribute(cudaDevAttrMaxGridDimZ));
  EXPECT_EQ(properties.sharedMemPerBlockOptin,
            static_cast<size_t>(attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin)));
  EXPECT_EQ(properties.memoryPoolsSupported, attribute(cudaDevAttrMemoryPoolsSupported));
  size_t total = 0;
  ASSERT_EQ(cuDeviceTotalMem(&total, 0), CUDA_SUCCESS);
  EXPECT_EQ(properties.totalGlobalMem, total);
  EXPECT_EQ(cudaGetDeviceProperties(&properties, 99), cudaErrorInvalidDevice);
  int value;
  EXPECT_EQ(cudaDeviceGetAttribute(&value, static_cast<cudaDeviceAttr>(100000), 0), cudaErrorInvalidValue);
}

TEST_F(CudartErrors, VersionsAreThoseOfTheToolkit) {
  int version = 0;
  EXPECT_EQ(cudaRuntimeGetVersion(&version), cudaSuccess);
  EXPECT_EQ(version, 13000);
  EXPECT_EQ(cudaDriverGetVersion(&version), cudaSuccess);
  EXPECT_GE(version, 13000);
}

TEST_F(CudartErrors, AskingForTheDeviceMakesNoContextAndChoosingItDoes) {
  std::thread([] {
    int device = -1;
    EXPECT_EQ(cudaGetDevice(&device), cudaSuccess);
    EXPECT_EQ(device, 0);
    CUcontext context = nullptr;
    EXPECT_EQ(cuCtxGetCurrent(&context), CUDA_SUCCESS);
    EXPECT_EQ(context, nullptr);
    EXPECT_EQ(cudaSetDevice(0), cudaSuccess);
    EXPECT_EQ(cuCtxGetCurrent(&context), CUDA_SUCCESS);
    CUcontext primary = nullptr;
    EXPECT_EQ(cuDevicePrimaryCtxRetain(&primary, 0), CUDA_SUCCESS);
    EXPECT_EQ(context, primary);
    EXPECT_EQ(cuDevicePrimaryCtxRelease(0), CUDA_SUCCESS);
  }).join();
}

TEST_F(CudartErrors, AfterAResetTheNextCallMakesANewContext) {
  ASSERT_EQ(cudaFree(nullptr), cudaSuccess);
  unsigned flags = 0;
  int active = 0;
  ASSERT_EQ(cuDevicePrimaryCtxGetState(0, &flags, &active), CUDA_SUCCESS);
  EXPECT_EQ(active, 1);
  ASSERT_EQ(cudaDeviceReset(), cudaSuccess);
  ASSERT_EQ(cuDevicePrimaryCtxGetState(0, &flags, &active), CUDA_SUCCESS);
  EXPECT_EQ(active, 0);
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  ASSERT_EQ(cuDevicePrimaryCtxGetState(0, &flags, &active), CUDA_SUCCESS);
  EXPECT_EQ(active, 1);
}

TEST_F(CudartErrors, ADriversContextIsWorkedInWhenItIsCurrent) {
  std::thread([] {
    ASSERT_EQ(cuInit(0), CUDA_SUCCESS);
    CUcontext own = nullptr, current = nullptr;
    ASSERT_EQ(cuCtxCreate(&own, nullptr, 0, 0), CUDA_SUCCESS);
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    EXPECT_EQ(cuCtxGetCurrent(&current), CUDA_SUCCESS);
    EXPECT_EQ(current, own);
    EXPECT_EQ(cuCtxDestroy(own), CUDA_SUCCESS);
  }).join();
}

TEST_F(CudartErrors, FlagsOfTheDeviceAreCheckedAndRead) {
  EXPECT_EQ(cudaSetDeviceFlags(0x80000000u), cudaErrorInvalidValue);
  unsigned flags = 0;
  EXPECT_EQ(cudaSetDeviceFlags(cudaDeviceScheduleBlockingSync), cudaSuccess);
  EXPECT_EQ(cudaGetDeviceFlags(&flags), cudaSuccess);
  EXPECT_EQ(flags & cudaDeviceScheduleMask, unsigned{cudaDeviceScheduleBlockingSync});
  EXPECT_EQ(cudaSetDeviceFlags(cudaDeviceScheduleAuto), cudaSuccess);
}

TEST_F(CudartErrors, EntryPointsAreThoseOfTheCallersDefaultStream) {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult status{};
  ASSERT_EQ(cudaGetDriverEntryPointByVersion("cuLaunchKernel", &function, 13000, cudaEnableDefault, &status),
            cudaSuccess);
  EXPECT_EQ(status, cudaDriverEntryPointSuccess);
  EXPECT_EQ(function, reinterpret_cast<void*>(&cuLaunchKernel));
  ASSERT_EQ(cudaGetDriverEntryPointByVersion("cuNoSuchThing", &function, 13000, cudaEnableDefault, &status),
            cudaSuccess);
  EXPECT_EQ(status, cudaDriverEntryPointSymbolNotFound);
  EXPECT_EQ(function, nullptr);
}

}  // namespace
