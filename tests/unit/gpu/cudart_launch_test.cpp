// links: gpu_cudart gpu_cuda
// Kernels: registered as nvcc's start-up code does it, from libraries that a program loads, launched in each
// way, and refused. The PTX is written by hand; no nvcc is needed.
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

// What nvcc's code calls (crt/host_runtime.h).
extern "C" {
void** __cudaRegisterFatBinary(void* wrapper);
void __cudaRegisterFatBinaryEnd(void** handle);
void __cudaUnregisterFatBinary(void** handle);
void __cudaRegisterFunction(void** handle, const char* host, char* device, const char* name, int limit,
                            uint3* tid, uint3* bid, dim3* block, dim3* grid, int* size);
void __cudaRegisterVar(void** handle, char* host, char* device, const char* name, int ext, size_t size,
                       int constant, int global);
void __cudaRegisterManagedVar(void** handle, void** slot, char* device, const char* name, int ext,
                              size_t size, int constant, int global);
char __cudaInitModule(void** handle);
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, CUstream_st* stream);
cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared, void* stream);
cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* symbol);
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments, size_t shared,
                               cudaStream_t stream);
}

namespace {

#define OK(call) ASSERT_EQ(call, cudaSuccess)

// scale(int* numbers, int by): each thread multiplies its number and adds `offset`; `touch` writes `managed`.
constexpr const char* kPtx = R"(
.version 8.0
.target sm_75
.address_size 64
.visible .global .align 4 .u32 offset = 5;
.visible .const .align 4 .u32 fixed = 3;
.visible .global .attribute(.managed) .align 4 .u32 managed = 7;
.visible .entry scale(.param .u64 numbers, .param .u32 by)
{
  .reg .b32 %r<7>;
  .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [numbers];
  ld.param.u32 %r1, [by];
  cvta.to.global.u64 %rd1, %rd1;
  mov.u32 %r2, %tid.x;
  mul.wide.u32 %rd2, %r2, 4;
  add.s64 %rd3, %rd1, %rd2;
  ld.global.u32 %r3, [%rd3];
  mul.lo.s32 %r4, %r3, %r1;
  ld.global.u32 %r5, [offset];
  add.s32 %r6, %r4, %r5;
  st.global.u32 [%rd3], %r6;
  ret;
}
.visible .entry touch()
{
  .reg .b32 %r<3>;
  ld.const.u32 %r1, [fixed];
  ld.global.u32 %r2, [managed];
  add.s32 %r2, %r2, %r1;
  st.global.u32 [managed], %r2;
  ret;
}
)";

struct Wrapper {
  int magic = 0x466243b1, version = 1;
  const void* data = nullptr;
  void* filename = nullptr;
};

// A fat binary with one entry, PTX as it is (gpu_state/software/ptx/fat_binary.h has the format).
std::vector<unsigned char> fat_binary_of(const std::string& ptx) {
  const size_t payload = (ptx.size() + 1 + 7) / 8 * 8;
  std::vector<unsigned char> bytes(16 + 64 + payload);
  const auto put = [&](size_t at, uint64_t value, size_t size) { std::memcpy(&bytes[at], &value, size); };
  put(0, 0xba55ed50, 4);
  put(4, 1, 2);
  put(6, 16, 2);
  put(8, 64 + payload, 8);
  put(16 + 0x00, 1, 2);  // PTX
  put(16 + 0x02, 0x0101, 2);
  put(16 + 0x04, 64, 4);
  put(16 + 0x08, payload, 8);
  put(16 + 0x1c, 75, 4);
  std::memcpy(&bytes[16 + 64], ptx.data(), ptx.size());
  return bytes;
}

void scale_stub() {}
int offset_shadow = 0;
int* managed_slot = nullptr;

class CudartLaunch : public testing::Test {
 protected:
  void SetUp() override {
    cudaGetLastError();
    wrapper.data = image.data();
    handle = __cudaRegisterFatBinary(&wrapper);
    __cudaRegisterFunction(handle, reinterpret_cast<const char*>(&scale_stub), nullptr, "scale", -1, nullptr,
                           nullptr, nullptr, nullptr, nullptr);
    __cudaRegisterFunction(handle, &missing, nullptr, "no_such_kernel", -1, nullptr, nullptr, nullptr,
                           nullptr, nullptr);
    __cudaRegisterVar(handle, reinterpret_cast<char*>(&offset_shadow), nullptr, "offset", 0, 4, 0, 0);
    __cudaRegisterManagedVar(handle, reinterpret_cast<void**>(&managed_slot), nullptr, "managed", 0, 4, 0, 0);
    __cudaRegisterFatBinaryEnd(handle);
    OK(cudaMalloc(reinterpret_cast<void**>(&numbers), 64));
    OK(cudaMemcpy(numbers, begin, 64, cudaMemcpyHostToDevice));
  }
  void TearDown() override {
    EXPECT_EQ(cudaFree(numbers), cudaSuccess);
    __cudaUnregisterFatBinary(handle);
  }
  std::vector<int> read() {
    std::vector<int> back(16);
    EXPECT_EQ(cudaMemcpy(back.data(), numbers, 64, cudaMemcpyDeviceToHost), cudaSuccess);
    return back;
  }
  const void* scale() const { return reinterpret_cast<const void*>(&scale_stub); }

  const std::vector<unsigned char> image = fat_binary_of(kPtx);
  Wrapper wrapper;
  void** handle = nullptr;
  char missing = 0;
  int* numbers = nullptr;
  int by = 2;
  void* arguments[2] = {&numbers, &by};
  const int begin[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
};

TEST_F(CudartLaunch, AKernelIsLaunchedAsNvccsCodeDoesIt) {
  ASSERT_EQ(__cudaPushCallConfiguration(dim3(1), dim3(16), 0, nullptr), 0u);
  dim3 grid, block;
  size_t shared = 9;
  cudaStream_t stream = cudaStreamPerThread;
  OK(__cudaPopCallConfiguration(&grid, &block, &shared, &stream));
  EXPECT_EQ(block.x, 16u);
  EXPECT_EQ(shared, 0u);
  EXPECT_EQ(stream, nullptr);
  cudaKernel_t kernel = nullptr;
  OK(__cudaGetKernel(&kernel, scale()));
  OK(__cudaLaunchKernel(kernel, grid, block, arguments, shared, stream));
  by = 1000;  // taken at the launch
  EXPECT_EQ(read()[15], 35);
  EXPECT_EQ(__cudaPopCallConfiguration(&grid, &block, &shared, &stream), cudaErrorMissingConfiguration);
  cudaGetLastError();
}

// They run after what the main thread has of its own is gone; what is allocated then may lie where that was.
TEST_F(CudartLaunch, DestructorsOfStaticObjectsMayLaunch) {
  auto launch_last = [] {
    if (__cudaPushCallConfiguration(dim3(3), dim3(16), 7, nullptr) != 0) _exit(1);
    std::vector<void*> other;
    for (size_t size = 16; size < 512; size += 8) other.push_back(std::memset(std::malloc(size), 0xff, size));
    dim3 grid, block;
    size_t shared = 0;
    cudaStream_t stream = nullptr;
    if (__cudaPopCallConfiguration(&grid, &block, &shared, &stream) != cudaSuccess) _exit(2);
    _exit(grid.x == 3 && block.x == 16 && shared == 7 && !stream ? 42 : 3);
  };
  const pid_t child = fork();
  if (child == 0) {
    dim3 size;
    size_t shared;
    cudaStream_t stream;
    __cudaPushCallConfiguration(dim3(1), dim3(1), 0, nullptr);
    __cudaPopCallConfiguration(&size, &size, &shared, &stream);
    std::atexit(launch_last);
    std::exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 42);
}

TEST_F(CudartLaunch, ASymbolAKernelAndAFunctionNameTheSame) {
  cudaKernel_t kernel;
  cudaFunction_t function;
  OK(cudaGetKernel(&kernel, scale()));
  OK(cudaGetFuncBySymbol(&function, scale()));
  for (const void* one : {scale(), static_cast<const void*>(kernel), static_cast<const void*>(function)})
    OK(cudaLaunchKernel(one, dim3(1), dim3(16), arguments, 0, nullptr));
  EXPECT_EQ(read()[1], ((1 * 2 + 5) * 2 + 5) * 2 + 5);
  const char* name = nullptr;
  OK(cudaFuncGetName(&name, scale()));
  EXPECT_STREQ(name, "scale");
  size_t place = 0, size = 0;
  OK(cudaFuncGetParamInfo(scale(), 1, &place, &size));
  EXPECT_EQ(place, 8u);
  EXPECT_EQ(size, 4u);
  cudaFuncAttributes attributes;
  OK(cudaFuncGetAttributes(&attributes, scale()));
  EXPECT_EQ(attributes.maxThreadsPerBlock, 1024);
  EXPECT_EQ(attributes.ptxVersion, 75);  // of the virtual architecture
  int blocks = 0;
  OK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, scale(), 1024, 0));
  EXPECT_GE(blocks, 1);
}

TEST_F(CudartLaunch, ImpossibleLaunchesReturnTheReason) {
  const auto launch = [&](dim3 grid, dim3 block, size_t shared) {
    return cudaLaunchKernel(scale(), grid, block, arguments, shared, nullptr);
  };
  EXPECT_EQ(launch(dim3(0), dim3(1), 0), cudaErrorInvalidConfiguration);
  EXPECT_EQ(launch(dim3(1), dim3(1025), 0), cudaErrorInvalidConfiguration);
  EXPECT_EQ(launch(dim3(1), dim3(1, 1, 65), 0), cudaErrorInvalidConfiguration);
  EXPECT_EQ(launch(dim3(1, 65536), dim3(1), 0), cudaErrorInvalidConfiguration);
  EXPECT_EQ(launch(dim3(1), dim3(1), 1 << 20), cudaErrorInvalidValue);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidValue);
  EXPECT_EQ(cudaLaunchKernel(&missing, dim3(1), dim3(1), arguments, 0, nullptr),
            cudaErrorInvalidDeviceFunction);
  cudaKernel_t kernel;
  EXPECT_EQ(__cudaGetKernel(&kernel, &missing), cudaSuccess);  // the launch says it
  EXPECT_EQ(__cudaLaunchKernel(kernel, dim3(1), dim3(1), arguments, 0, nullptr),
            cudaErrorInvalidDeviceFunction);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidDeviceFunction);
  EXPECT_EQ(read()[3], 3);
}

TEST_F(CudartLaunch, VariablesAreReachedByTheirShadows) {
  const int ten = 10;
  OK(cudaMemcpyToSymbol(&offset_shadow, &ten, 4, 0, cudaMemcpyHostToDevice));
  OK(cudaLaunchKernel(scale(), dim3(1), dim3(16), arguments, 0, nullptr));
  EXPECT_EQ(read()[2], 14);
  int back = 0;
  OK(cudaMemcpyFromSymbol(&back, &offset_shadow, 4, 0, cudaMemcpyDeviceToHost));
  EXPECT_EQ(back, 10);
  EXPECT_EQ(cudaMemcpyFromSymbol(&back, &offset_shadow, 4, 1, cudaMemcpyDeviceToHost), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpyToSymbol(&offset_shadow, &ten, 4, 0, cudaMemcpyDeviceToHost),
            cudaErrorInvalidMemcpyDirection);
  EXPECT_EQ(cudaMemcpyToSymbol(&back, &ten, 4, 0, cudaMemcpyHostToDevice), cudaErrorInvalidSymbol);
  size_t size = 0;
  OK(cudaGetSymbolSize(&size, &offset_shadow));
  EXPECT_EQ(size, 4u);
  cudaGetLastError();
}

TEST_F(CudartLaunch, AManagedVariableIsThereBeforeTheHostTouchesIt) {
  EXPECT_EQ(__cudaInitModule(handle), 1);
  ASSERT_NE(managed_slot, nullptr);
  EXPECT_EQ(*managed_slot, 7);
  void* address = nullptr;
  OK(cudaGetSymbolAddress(&address, managed_slot));
  EXPECT_EQ(address, managed_slot);
  EXPECT_EQ(cudaFree(address), cudaErrorInvalidValue) << "it is the module's";
  EXPECT_EQ(*managed_slot, 7);
  cudaGetLastError();
}

TEST_F(CudartLaunch, ASecondRegistrationTakesOverWhenTheFirstIsRemoved) {
  Wrapper other = wrapper;
  void** second = __cudaRegisterFatBinary(&other);
  __cudaRegisterFunction(second, reinterpret_cast<const char*>(&scale_stub), nullptr, "scale", -1, nullptr,
                         nullptr, nullptr, nullptr, nullptr);
  __cudaUnregisterFatBinary(handle);
  handle = second;
  OK(cudaLaunchKernel(scale(), dim3(1), dim3(16), arguments, 0, nullptr));
  EXPECT_EQ(read()[1], 7);
}

TEST_F(CudartLaunch, ALibraryGivesItsKernelsAndVariables) {
  cudaLibrary_t library;
  OK(cudaLibraryLoadData(&library, kPtx, nullptr, nullptr, 0, nullptr, nullptr, 0));
  unsigned count = 0;
  OK(cudaLibraryGetKernelCount(&count, library));
  EXPECT_EQ(count, 2u);
  cudaKernel_t touch, none;
  OK(cudaLibraryGetKernel(&touch, library, "touch"));
  EXPECT_EQ(cudaLibraryGetKernel(&none, library, "touche"), cudaErrorSymbolNotFound);
  void *managed = nullptr, *fixed = nullptr;
  size_t size = 0;
  OK(cudaLibraryGetManaged(&managed, &size, library, "managed"));
  EXPECT_EQ(size, 4u);
  OK(cudaLaunchKernel(touch, dim3(1), dim3(1), nullptr, 0, nullptr));
  OK(cudaDeviceSynchronize());
  EXPECT_EQ(*static_cast<int*>(managed), 10);
  OK(cudaLibraryGetGlobal(&fixed, &size, library, "fixed"));
  const int five = 5;
  OK(cudaMemcpy(fixed, &five, 4, cudaMemcpyHostToDevice));
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(1);
  config.blockDim = dim3(1);
  OK(cudaLaunchKernelExC(&config, touch, nullptr));
  OK(cudaDeviceSynchronize());
  EXPECT_EQ(*static_cast<int*>(managed), 15);
  OK(cudaLaunchCooperativeKernel(touch, dim3(1), dim3(1), nullptr, 0, nullptr));
  OK(cudaDeviceSynchronize());
  EXPECT_EQ(*static_cast<int*>(managed), 20);
  OK(cudaLibraryUnload(library));
  EXPECT_EQ(cudaLaunchKernel(touch, dim3(1), dim3(1), nullptr, 0, nullptr), cudaErrorInvalidDeviceFunction);
  cudaGetLastError();
}

TEST_F(CudartLaunch, ALibraryThatIsNoneIsRefused) {
  cudaLibrary_t library;
  EXPECT_EQ(
      cudaLibraryLoadData(&library, ".version 8.0\n.target sm_75\n.address_size 64\n.visible .entry x( {",
                          nullptr, nullptr, 0, nullptr, nullptr, 0),
      cudaErrorInvalidPtx);
  cudaGetLastError();
}

TEST_F(CudartLaunch, AfterAResetVariablesAreInitialAndKernelsWork) {
  const int ten = 10;
  cudaKernel_t kernel;
  OK(__cudaGetKernel(&kernel, scale()));
  OK(cudaMemcpyToSymbol(&offset_shadow, &ten, 4, 0, cudaMemcpyHostToDevice));
  OK(cudaDeviceReset());
  OK(cudaMalloc(reinterpret_cast<void**>(&numbers), 64));
  OK(cudaMemcpy(numbers, begin, 64, cudaMemcpyHostToDevice));
  OK(__cudaLaunchKernel(kernel, dim3(1), dim3(16), arguments, 0, nullptr));
  EXPECT_EQ(read()[1], 7);
}

TEST_F(CudartLaunch, AGraphsKernelIsKnownByItsSymbol) {
  cudaStream_t stream;
  OK(cudaStreamCreate(&stream));
  cudaKernel_t kernel;
  OK(__cudaGetKernel(&kernel, scale()));
  OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  OK(__cudaLaunchKernel(kernel, dim3(1), dim3(16), arguments, 0, stream));
  cudaGraph_t graph;
  OK(cudaStreamEndCapture(stream, &graph));
  cudaGraphNode_t node;
  size_t count = 1;
  OK(cudaGraphGetNodes(graph, &node, &count));
  ASSERT_EQ(count, 1u);
  cudaKernelNodeParams params{};
  OK(cudaGraphKernelNodeGetParams(node, &params));
  EXPECT_EQ(params.func, scale());
  EXPECT_EQ(params.blockDim.x, 16u);
  cudaGraphExec_t instance;
  OK(cudaGraphInstantiate(&instance, graph, 0));
  by = 3;
  params.kernelParams = arguments;
  OK(cudaGraphExecKernelNodeSetParams(instance, node, &params));
  OK(cudaGraphLaunch(instance, stream));
  OK(cudaStreamSynchronize(stream));
  EXPECT_EQ(read()[4], 17);
  OK(cudaGraphExecDestroy(instance));
  OK(cudaGraphDestroy(graph));
  OK(cudaStreamDestroy(stream));
}

}  // namespace
