// nvcc: -std=c++17 -lcuda -Xcompiler -pthread
// run: ways=static
// Default devices and threads. The very first CUDA call creates an object; the main thread never chooses a
// device; a thread uses a second device, if there is one, resets it and starts again; a thread that is new in
// every step finds the defaults. With --second, everything is on the second device, and the first has no
// context.
#include <cuda.h>

#include <atomic>
#include <cmath>
#include <thread>

#include "saved.h"

#define CU(what)                                                                                 \
  do {                                                                                           \
    CUresult result_ = (what);                                                                   \
    if (result_ != CUDA_SUCCESS) steplog_fail("line %d: %s: %d", __LINE__, #what, (int)result_); \
  } while (0)

static int devices;

// One for all devices: using it must not create a context on the first one.
__managed__ unsigned counted;
__global__ void count() { counted++; }

static bool is_active(int device) {
  unsigned flags = 0;
  int active = 0;
  CU(cuDevicePrimaryCtxGetState(device, &flags, &active));
  return active != 0;
}

static int device_of_new_memory() {
  Buffer<unsigned> some(64);
  cudaPointerAttributes attributes;
  CALL(cudaPointerGetAttributes(&attributes, some.data));
  return attributes.device;
}

static void only_the_second() {
  CALL(cudaSetDevice(1));
  DeviceNonce nonce;
  while (steplog_done < steplog_steps) {
    count<<<1, 1>>>();
    LAUNCHED();
    CALL(cudaDeviceSynchronize());
    EXPECT(counted == steplog_done + 1);
    EXPECT(!is_active(0) && device_of_new_memory() == 1);
    std::thread([] { CALL(cudaSetDevice(1)); }).join();
    steplog_step();
  }
  nonce.back();
  steplog_ok();
}

static volatile bool ended;
static std::atomic<bool> has_begun_anew{false};

// Objects made before the reset are gone afterwards, and do not cause a refusal.
static void use_second_device() {
  CALL(cudaSetDevice(1));
  cudaStream_t stream;
  CALL(cudaStreamCreate(&stream));
  cudaArray_t array;
  const cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
  CALL(cudaMallocArray(&array, &format, 64, 64));
  cudaStreamCaptureStatus status;
  cudaGraph_t graph;  // the program keeps its handle
  CALL(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
  CALL(cudaStreamGetCaptureInfo(stream, &status, nullptr, &graph, nullptr, nullptr, nullptr));
  EXPECT(status == cudaStreamCaptureStatusActive);
  CALL(cudaDeviceReset());
  CALL(cudaStreamCreate(&stream));
  has_begun_anew = true;
  while (!ended) {
    EXPECT(device_of_new_memory() == 1);
    CALL(cudaStreamQuery(stream));
  }
  CALL(cudaStreamDestroy(stream));
}

static void begin_anew() {
  int device = -1;
  CALL(cudaGetDevice(&device));
  EXPECT(device == 0 && device_of_new_memory() == 0);
  cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
  CALL(cudaThreadExchangeStreamCaptureMode(&mode));
  EXPECT(mode == cudaStreamCaptureModeGlobal);
  if (devices > 1) CALL(cudaSetDevice(1));
}

int main(int argc, char** argv) {
  steplog_open(argc, argv, -1);
  if (steplog_has(argc, argv, "--second")) {
    CALL(cudaGetDeviceCount(&devices));
    if (devices > 1) {
      only_the_second();
      return 0;
    }
  }
  cudaEvent_t begin, end, captured;
  CALL(cudaEventCreate(&begin));
  CALL(cudaEventCreate(&end));
  CALL(cudaEventCreate(&captured));
  CALL(cudaEventRecord(begin));
  CALL(cudaEventSynchronize(begin));
  cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
  CALL(cudaThreadExchangeStreamCaptureMode(&mode));
  CALL(cudaGetDeviceCount(&devices));
  CALL(cudaSetDeviceFlags(cudaDeviceScheduleBlockingSync));
  DeviceNonce nonce;

  // A destroyed pool is no longer its device's current pool, nor is one that was replaced before.
  cudaMemPool_t usual, pool, older[2];
  CALL(cudaDeviceGetDefaultMemPool(&usual, 0));
  cudaMemPoolProps properties = {};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location.type = cudaMemLocationTypeDevice;
  cudaMemLocation at_second = properties.location;
  at_second.id = 1;
  for (cudaMemPool_t* one : {&older[0], &older[1], &pool}) CALL(cudaMemPoolCreate(one, &properties));
  CALL(cudaDeviceSetMemPool(0, older[0]));
  CALL(cudaMemSetMemPool(&properties.location, cudaMemAllocationTypePinned, older[1]));
  CU(cuDeviceSetMemPool(0, pool));
  CALL(cudaMemPoolDestroy(pool));

  cudaStream_t stream;
  cudaGraph_t graph;
  CALL(cudaStreamCreate(&stream));
  CALL(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
  CALL(cudaEventRecord(captured, stream));
  CALL(cudaStreamEndCapture(stream, &graph));
  CALL(cudaGraphDestroy(graph));

  std::thread other;
  if (devices > 1) {
    other = std::thread(use_second_device);
    while (!has_begun_anew) std::this_thread::yield();
    CUcontext second;
    CU(cuDevicePrimaryCtxRetain(&second, 1));
    CALL(cudaDeviceEnablePeerAccess(1, 0));
    CU(cuCtxDisablePeerAccess(second));
    cudaMemAccessDesc twice[2] = {};  // the last one counts
    for (cudaMemAccessDesc& one : twice) one.location = at_second;
    twice[1].flags = cudaMemAccessFlagsProtReadWrite;
    CALL(cudaMemPoolSetAccess(older[0], twice, 2));
  }
  CALL(cudaEventRecord(end));
  CALL(cudaEventSynchronize(end));
  float elapsed = 0, now = 0;
  CALL(cudaEventElapsedTime(&elapsed, begin, end));
  while (steplog_done < steplog_steps) {
    int device = -1;
    CUcontext context = nullptr;
    CU(cuCtxGetCurrent(&context));
    EXPECT(context != nullptr);
    CALL(cudaGetDevice(&device));
    EXPECT(device == 0 && device_of_new_memory() == 0);
    CALL(cudaEventElapsedTime(&now, begin, end));
    EXPECT(std::fabs(now - elapsed) <= 1e-4f * (1 + elapsed));
    EXPECT(cudaEventQuery(captured) == cudaErrorCapturedEvent);
    cudaGetLastError();
    unsigned flags = 0;
    CALL(cudaGetDeviceFlags(&flags));
    EXPECT((flags & cudaDeviceScheduleMask) == cudaDeviceScheduleBlockingSync);
    cudaMemPool_t current;
    CALL(cudaDeviceGetMemPool(&current, 0));
    EXPECT(current == usual);
    void* memory = nullptr;
    CALL(cudaMallocAsync(&memory, 1000, stream));
    CALL(cudaFreeAsync(memory, stream));
    mode = cudaStreamCaptureModeRelaxed;
    CALL(cudaThreadExchangeStreamCaptureMode(&mode));
    EXPECT(mode == cudaStreamCaptureModeRelaxed);
    if (devices > 1) {
      CALL(cudaDeviceEnablePeerAccess(1, 0));
      CALL(cudaDeviceDisablePeerAccess(1));
      cudaMemAccessFlags may = cudaMemAccessFlagsProtNone;
      CALL(cudaMemPoolGetAccess(&may, older[0], &at_second));
      EXPECT(may == cudaMemAccessFlagsProtReadWrite);
    }
    std::thread(begin_anew).join();
    steplog_step();
  }
  ended = true;
  if (devices > 1) other.join();
  nonce.back();
  // Device flags survive a reset.
  CALL(cudaDeviceReset());
  unsigned flags = 0;
  CALL(cudaGetDeviceFlags(&flags));
  EXPECT((flags & cudaDeviceScheduleMask) == cudaDeviceScheduleBlockingSync);
  steplog_ok();
  return 0;
}
