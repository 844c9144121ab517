// links: gpu_cudart gpu_cuda
// The runtime's streams, events, callbacks, pools, and both kinds of default stream.
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <thread>
#include <vector>

// What programs compiled with -default-stream per-thread call.
extern "C" {
cudaError_t cudaMemsetAsync_ptsz(void* memory, int value, size_t count, cudaStream_t stream);
cudaError_t cudaStreamQuery_ptsz(cudaStream_t stream);
cudaError_t cudaStreamSynchronize_ptsz(cudaStream_t stream);
cudaError_t cudaMemcpy_ptds(void* destination, const void* source, size_t count, cudaMemcpyKind kind);
}

namespace {

#define OK(call) ASSERT_EQ(call, cudaSuccess)

const bool kSet = setenv("CROPDL_SOFTWARE_GPUS", "2", 1) == 0;

// A function in a stream that ends when it is told to.
struct Gate {
  std::atomic<bool> open{false};
  static void wait(void* gate) {
    while (!static_cast<Gate*>(gate)->open) std::this_thread::yield();
  }
};

// Until a stream that waits for nobody has done what it was given after all else: whoever is not held back
// has had its time, too.
void let_another_stream_work() {
  void* memory;
  cudaStream_t stream;
  OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  OK(cudaMallocAsync(&memory, 1 << 20, stream));
  for (int i = 0; i < 20; ++i) {
    OK(cudaMemsetAsync(memory, i, 1 << 20, stream));
    OK(cudaStreamSynchronize(stream));
  }
  OK(cudaFreeAsync(memory, stream));
  OK(cudaStreamSynchronize(stream));
  OK(cudaStreamDestroy(stream));
}

TEST(CudartStreams, AResetIsNoOtherDevicesMatter) {
  OK(cudaSetDevice(0));
  cudaStream_t stream;
  OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  Gate gate;
  OK(cudaLaunchHostFunc(stream, Gate::wait, &gate));
  std::thread resetting([] {
    OK(cudaSetDevice(0));
    OK(cudaDeviceReset());
  });
  for (int active = 1; active;) {  // until it waits
    unsigned flags = 0;
    ASSERT_EQ(cuDevicePrimaryCtxGetState(0, &flags, &active), CUDA_SUCCESS);
    std::this_thread::yield();
  }
  OK(cudaSetDevice(1));
  ASSERT_NO_FATAL_FAILURE(let_another_stream_work());
  gate.open = true;
  resetting.join();
  OK(cudaSetDevice(0));
  OK(cudaDeviceSynchronize());
}

TEST(CudartStreams, AStreamThatIsBusyIsNotReadyWhichIsNoError) {
  cudaGetLastError();
  cudaStream_t stream;
  OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  Gate gate;
  OK(cudaLaunchHostFunc(stream, Gate::wait, &gate));
  EXPECT_EQ(cudaStreamQuery(stream), cudaErrorNotReady);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  cudaEvent_t event;
  OK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  OK(cudaEventRecord(event, stream));
  EXPECT_EQ(cudaEventQuery(event), cudaErrorNotReady);
  gate.open = true;
  OK(cudaEventSynchronize(event));
  OK(cudaStreamSynchronize(stream));
  OK(cudaStreamQuery(stream));
  OK(cudaEventDestroy(event));
  OK(cudaStreamDestroy(stream));
}

TEST(CudartStreams, AnEventHoldsAnotherStreamBack) {
  cudaStream_t first, second;
  OK(cudaStreamCreateWithFlags(&first, cudaStreamNonBlocking));
  OK(cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking));
  cudaEvent_t event;
  OK(cudaEventCreate(&event));
  // Functions of the host may wait for each other, so what is held back is a fill.
  unsigned char* memory;
  OK(cudaMallocHost(reinterpret_cast<void**>(&memory), 1));
  *memory = 0;
  Gate gate;
  OK(cudaLaunchHostFunc(first, Gate::wait, &gate));
  OK(cudaEventRecord(event, first));
  OK(cudaStreamWaitEvent(second, event, 0));
  OK(cudaMemsetAsync(memory, 1, 1, second));
  ASSERT_NO_FATAL_FAILURE(let_another_stream_work());
  EXPECT_EQ(*memory, 0);
  gate.open = true;
  OK(cudaStreamSynchronize(second));
  EXPECT_EQ(*memory, 1);
  OK(cudaFreeHost(memory));
  OK(cudaEventDestroy(event));
  OK(cudaStreamDestroy(first));
  OK(cudaStreamDestroy(second));
}

// Functions of the host may wait for each other, so what is beside them here is fills.
TEST(CudartStreams, TheLegacyStreamWaitsForBlockingStreamsAndTheCallersOwnDoesNotWaitForNonBlockingOnes) {
  void* memory;
  OK(cudaMalloc(&memory, 16));
  cudaStream_t aside, blocking;
  OK(cudaStreamCreateWithFlags(&aside, cudaStreamNonBlocking));
  OK(cudaStreamCreate(&blocking));
  Gate gate;
  OK(cudaLaunchHostFunc(aside, Gate::wait, &gate));
  OK(cudaMemsetAsync_ptsz(memory, 1, 16, nullptr));
  OK(cudaStreamSynchronize_ptsz(nullptr));
  OK(cudaMemsetAsync(memory, 1, 16, nullptr));
  OK(cudaStreamSynchronize(nullptr));
  EXPECT_EQ(cudaStreamQuery(aside), cudaErrorNotReady);
  gate.open = true;
  OK(cudaStreamSynchronize(aside));
  Gate second;
  OK(cudaLaunchHostFunc(blocking, Gate::wait, &second));
  OK(cudaMemsetAsync(memory, 1, 16, nullptr));
  ASSERT_NO_FATAL_FAILURE(let_another_stream_work());
  EXPECT_EQ(cudaStreamQuery(cudaStreamLegacy), cudaErrorNotReady);
  EXPECT_EQ(cudaStreamQuery_ptsz(nullptr), cudaSuccess);
  second.open = true;
  OK(cudaStreamSynchronize(nullptr));
  OK(cudaStreamDestroy(aside));
  OK(cudaStreamDestroy(blocking));
  OK(cudaFree(memory));
}

struct Called {
  cudaStream_t stream = nullptr;
  cudaError_t status = cudaErrorUnknown;
  static void back(cudaStream_t stream, cudaError_t status, void* called) {
    *static_cast<Called*>(called) = {stream, status};
  }
};

TEST(CudartStreams, ACallbackGetsItsStreamAndSuccess) {
  cudaStream_t stream;
  OK(cudaStreamCreate(&stream));
  Called called;
  OK(cudaStreamAddCallback(stream, Called::back, &called, 0));
  OK(cudaStreamSynchronize(stream));
  EXPECT_EQ(called.stream, stream);
  EXPECT_EQ(called.status, cudaSuccess);
  EXPECT_EQ(cudaStreamAddCallback(stream, nullptr, nullptr, 0), cudaErrorInvalidValue);
  OK(cudaStreamDestroy(stream));
}

TEST(CudartStreams, DefaultStreamsAndDeadOnesAreNotDestroyed) {
  EXPECT_EQ(cudaStreamDestroy(nullptr), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaStreamDestroy(cudaStreamPerThread), cudaErrorInvalidResourceHandle);
  cudaStream_t stream;
  OK(cudaStreamCreate(&stream));
  OK(cudaStreamDestroy(stream));
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaErrorInvalidResourceHandle);
  cudaGetLastError();
}

TEST(CudartStreams, StreamPropertiesAreReturned) {
  int least = 0, greatest = 0, priority = 99, device = 99;
  OK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
  EXPECT_LE(greatest, least);
  cudaStream_t stream;
  OK(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, greatest));
  OK(cudaStreamGetPriority(stream, &priority));
  EXPECT_EQ(priority, greatest);
  unsigned flags = 0;
  OK(cudaStreamGetFlags(stream, &flags));
  EXPECT_EQ(flags, unsigned{cudaStreamNonBlocking});
  OK(cudaStreamGetDevice(stream, &device));
  EXPECT_EQ(device, 0);
  unsigned long long id = 0, of_default = 0;
  OK(cudaStreamGetId(stream, &id));
  OK(cudaStreamGetId(nullptr, &of_default));
  EXPECT_NE(id, of_default);
  OK(cudaStreamDestroy(stream));
}

TEST(CudartStreams, TimeBetweenEventsIsMeasured) {
  cudaEvent_t begin, end, never;
  OK(cudaEventCreate(&begin));
  OK(cudaEventCreate(&end));
  OK(cudaEventCreateWithFlags(&never, cudaEventDisableTiming));
  OK(cudaEventRecord(begin, nullptr));
  OK(cudaLaunchHostFunc(
      nullptr, [](void*) { std::this_thread::sleep_for(std::chrono::milliseconds(30)); }, nullptr));
  OK(cudaEventRecord(end, nullptr));
  OK(cudaEventSynchronize(end));
  float milliseconds = 0;
  OK(cudaEventElapsedTime(&milliseconds, begin, end));
  EXPECT_GE(milliseconds, 29.f);
  OK(cudaEventRecord(never, nullptr));
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, begin, never), cudaErrorInvalidResourceHandle);
  cudaGetLastError();
  for (cudaEvent_t event : {begin, end, never}) OK(cudaEventDestroy(event));
}

TEST(CudartStreams, MemoryIsAllocatedAndFreedInStreamOrder) {
  cudaStream_t stream;
  OK(cudaStreamCreate(&stream));
  void* memory = nullptr;
  std::vector<int> back(64);
  OK(cudaMallocAsync(&memory, 256, stream));
  OK(cudaMemsetAsync(memory, 0x11, 256, stream));
  OK(cudaMemcpyAsync(back.data(), memory, 256, cudaMemcpyDeviceToHost, stream));
  OK(cudaFreeAsync(memory, stream));
  OK(cudaStreamSynchronize(stream));
  EXPECT_EQ(back[63], 0x11111111);
  cudaMemPool_t pool, now;
  OK(cudaDeviceGetDefaultMemPool(&pool, 0));
  OK(cudaDeviceGetMemPool(&now, 0));
  EXPECT_EQ(pool, now);
  unsigned long long threshold = 1 << 20, read = 0;
  OK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &threshold));
  OK(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &read));
  EXPECT_EQ(read, threshold);
  cudaMemPoolProps properties{};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location = {cudaMemLocationTypeDevice, 0};
  OK(cudaMemPoolCreate(&pool, &properties));
  OK(cudaMallocFromPoolAsync(&memory, 100, pool, stream));
  OK(cudaFreeAsync(memory, stream));
  OK(cudaStreamSynchronize(stream));
  OK(cudaMemPoolTrimTo(pool, 0));
  OK(cudaMemPoolDestroy(pool));
  OK(cudaStreamDestroy(stream));
}

TEST(CudartStreams, CopiesOfBothDefaultStreamsArrive) {
  void* memory;
  OK(cudaMalloc(&memory, 16));
  int in[4] = {1, 2, 3, 4}, out[4] = {};
  OK(cudaMemcpy_ptds(memory, in, 16, cudaMemcpyHostToDevice));
  OK(cudaMemcpy(out, memory, 16, cudaMemcpyDeviceToHost));
  EXPECT_EQ(out[3], 4);
  OK(cudaFree(memory));
}

}  // namespace
