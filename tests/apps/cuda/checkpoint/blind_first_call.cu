// nvcc: -std=c++17 -lnccl -lcuda -Xcompiler -pthread -Xcompiler -Wno-cast-function-type
// run: build=long ways=static
// Many threads on the second device, which sleep between steps. Each wakes up with a different kind of call,
// whose result depends on the thread's device: memory, pools, streams, events, launches on default streams,
// symbols, NCCL, the driver's own calls, modes and errors of threads.
#include <cuda.h>
#include <nccl.h>

#include <condition_variable>
#include <mutex>
#include <thread>

#include "saved.h"

static std::mutex mutex;
static std::condition_variable turn;
static long allowed, finished;

__device__ uint32_t mark[32];
__global__ void touch(int which) { mark[which]++; }
__global__ void set_to(uint32_t* at, uint32_t value) { *at = value; }

static int device_of(const void* memory) {
  cudaPointerAttributes of;
  CALL(cudaPointerGetAttributes(&of, memory));
  return of.device;
}
#define NCCL(what) EXPECT((what) == ncclSuccess)
#define DRIVER(what) EXPECT((what) == CUDA_SUCCESS)

constexpr int kKinds = 25;
static uint32_t* memory[kKinds];  // on the second device
static cudaStream_t own[kKinds];  // on the second device too
static bool kind_step(int kind, uint32_t step) {
  int device = -1;
  void* made = nullptr;
  switch (kind) {
    case 0:
      CALL(cudaMalloc(&made, 100));
      device = device_of(made);
      CALL(cudaFree(made));
      return device == 1;
    case 1:
      CALL(cudaMallocAsync(&made, 100, nullptr));
      CALL(cudaStreamSynchronize(nullptr));
      device = device_of(made);
      CALL(cudaFree(made));
      return device == 1;
    case 2: {
      cudaStream_t stream;
      CALL(cudaStreamCreate(&stream));
      CALL(cudaStreamGetDevice(stream, &device));
      CALL(cudaStreamDestroy(stream));
      return device == 1;
    }
    case 3: {  // an event of another device could not be recorded on this stream
      cudaEvent_t event;
      CALL(cudaEventCreate(&event));
      CALL(cudaEventRecord(event, own[kind]));
      CALL(cudaEventDestroy(event));
      return true;
    }
    case 4:
    case 5: {
      uint32_t now = 0;
      if (kind == 4) touch<<<1, 1>>>(kind);
      if (kind == 5) touch<<<1, 1, 0, cudaStreamPerThread>>>(kind);
      LAUNCHED();
      CALL(cudaStreamSynchronize(kind == 4 ? nullptr : cudaStreamPerThread));
      CALL(cudaMemcpyFromSymbol(&now, mark, 4, kind * 4));
      return now == step + 1;
    }
    case 6: {
      uint32_t now = 0, next = step + 1;
      CALL(cudaMemcpyFromSymbol(&now, mark, 4, kind * 4));
      CALL(cudaMemcpyToSymbol(mark, &next, 4, kind * 4));
      return now == step;
    }
    case 7:
      CALL(cudaGetSymbolAddress(&made, mark));
      return device_of(made) == 1;
    case 8: {
      ncclUniqueId id;
      ncclComm_t comm;
      NCCL(ncclGetUniqueId(&id));
      NCCL(ncclCommInitRank(&comm, 1, id, 0));
      NCCL(ncclCommCuDevice(comm, &device));
      NCCL(ncclCommDestroy(comm));
      return device == 1;
    }
    case 9:
      NCCL(ncclMemAlloc(&made, 100));
      device = device_of(made);
      NCCL(ncclMemFree(made));
      return device == 1;
    case 10:
      DRIVER(cuCtxGetDevice(&device));
      return device == 1;
    case 11: {
      CUcontext context = nullptr, primary = nullptr;
      DRIVER(cuCtxGetCurrent(&context));
      DRIVER(cuDevicePrimaryCtxRetain(&primary, 1));
      DRIVER(cuDevicePrimaryCtxRelease(1));
      return context && context == primary;
    }
    case 12: {
      CUdeviceptr at;
      DRIVER(cuMemAlloc(&at, 100));
      device = device_of(reinterpret_cast<void*>(at));
      DRIVER(cuMemFree(at));
      return device == 1;
    }
    case 13: {  // the exchanged capture mode is per thread
      cudaStreamCaptureMode mode = step % 2 ? cudaStreamCaptureModeGlobal : cudaStreamCaptureModeRelaxed;
      CALL(cudaThreadExchangeStreamCaptureMode(&mode));
      CALL(cudaGetDevice(&device));
      return device == 1 && mode == (step % 2 ? cudaStreamCaptureModeRelaxed : cudaStreamCaptureModeGlobal);
    }
    case 14:
      EXPECT(cudaSetDevice(-1) == cudaErrorInvalidDevice);
      cudaGetLastError();
      CALL(cudaGetDevice(&device));
      return device == 1;
    case 15:  // to the device and back
      CALL(cudaSetDevice(0));
      CALL(cudaSetDevice(1));
      CALL(cudaMalloc(&made, 100));
      device = device_of(made);
      CALL(cudaFree(made));
      return device == 1;
    case 16: {
      CUcontext context = nullptr;  // the device's own, then the same again
      DRIVER(cuCtxPopCurrent(&context));
      DRIVER(cuCtxPushCurrent(context));
      DRIVER(cuCtxGetDevice(&device));
      return device == 1;
    }
    case 17: {
      cudaFuncAttributes attributes;
      CALL(cudaFuncGetAttributes(&attributes, touch));
      size_t limit = 0;
      CALL(cudaDeviceGetLimit(&limit, cudaLimitStackSize));
      return limit == 3072;  // set on the second device only
    }
    case 18:
      CALL(cudaMallocManaged(&made, 100));
      device = device_of(made);
      CALL(cudaFree(made));
      return device == 1;
    case 19: {
      static uint32_t calls;
      CALL(cudaLaunchHostFunc(
          nullptr, [](void* to) { ++*static_cast<uint32_t*>(to); }, &calls));
      CALL(cudaStreamSynchronize(nullptr));
      CALL(cudaGetDevice(&device));
      return calls == step + 1 && device == 1;
    }
    case 20: {
      unsigned flags = 0;
      CALL(cudaGetDeviceFlags(&flags));
      return (flags & cudaDeviceScheduleMask) ==
             cudaDeviceScheduleBlockingSync;  // set on the second device only
    }
    case 21: {
      uint32_t now = 0;
      CALL(cudaMemsetAsync(memory[kind], 7, 4, nullptr));
      set_to<<<1, 1, 0, own[kind]>>>(memory[kind] + 1, step);
      LAUNCHED();
      CALL(cudaStreamSynchronize(own[kind]));
      CALL(cudaMemcpy(&now, memory[kind] + 1, 4, cudaMemcpyDeviceToHost));
      return now == step;
    }
    case 22: {  // the other device's context, for one call
      CUcontext other = nullptr, popped = nullptr;
      DRIVER(cuDevicePrimaryCtxRetain(&other, 0));
      DRIVER(cuCtxPushCurrent(other));
      DRIVER(cuCtxPopCurrent(&popped));
      DRIVER(cuDevicePrimaryCtxRelease(0));
      CALL(cudaGetDevice(&device));
      return popped == other && device == 1;
    }
    case 23:
      CALL(cudaInitDevice(0, 0, 0));  // makes no device current
      CALL(cudaGetDevice(&device));
      return device == 1;
    case 24: {
      CUcontext context = nullptr;
      EXPECT(cuCtxGetDevice(nullptr) == CUDA_ERROR_INVALID_VALUE);
      EXPECT(cudaMalloc(&made, size_t{1} << 50) == cudaErrorMemoryAllocation);
      EXPECT(cudaGetLastError() == cudaErrorMemoryAllocation);
      DRIVER(cuCtxGetCurrent(&context));
      DRIVER(cuCtxSetCurrent(context));
      CALL(cudaGetDevice(&device));
      return device == 1;
    }
  }
  return false;
}

static void work(int kind) {
  CALL(cudaSetDevice(1));
  for (long step = 0; step < steplog_steps; step++) {
    {
      std::unique_lock<std::mutex> lock(mutex);
      turn.wait(lock, [&] { return allowed > step; });
    }
    if (!kind_step(kind, static_cast<uint32_t>(step))) steplog_fail("kind %d is not as it was", kind);
    std::lock_guard<std::mutex> lock(mutex);
    finished++;
    turn.notify_all();
  }
}

int main(int argc, char** argv) {
  steplog_open(argc, argv, -1);
  CALL(cudaSetDevice(1));
  CALL(cudaSetDeviceFlags(cudaDeviceScheduleBlockingSync));
  CALL(cudaDeviceSetLimit(cudaLimitStackSize, 3072));
  for (int i = 0; i < kKinds; i++) {
    CALL(cudaMalloc(&memory[i], 64));
    CALL(cudaStreamCreateWithFlags(&own[i], cudaStreamNonBlocking));
  }
  CALL(cudaSetDevice(0));
  DeviceNonce nonce;
  std::vector<std::thread> threads;
  int only = -1;  // --kind K: only this kind
  for (int i = 1; i + 1 < argc; i++)
    if (!strcmp(argv[i], "--kind")) only = atoi(argv[i + 1]);
  for (int kind = 0; kind < kKinds; kind++)
    if (only < 0 || only == kind) threads.emplace_back(work, kind);
  while (steplog_done < steplog_steps) {
    {
      std::unique_lock<std::mutex> lock(mutex);
      allowed = steplog_done + 1;
      turn.notify_all();
      turn.wait(lock, [&] { return finished == allowed * static_cast<long>(threads.size()); });
    }
    std::thread([] {  // a new thread is on the first device
      int device = -1;
      CALL(cudaGetDevice(&device));
      EXPECT(device == 0);
    })
        .join();
    steplog_mix(static_cast<uint64_t>(steplog_done));
    steplog_step();
  }
  for (auto& thread : threads) thread.join();
  nonce.back();
  steplog_ok();
  return 0;
}
