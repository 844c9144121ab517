// nvcc: -std=c++17 -lcuda -Xcompiler -pthread
// run: ways=static
// Threads with and without a current context. The main thread has none, although it has called the runtime
// and the driver and retains the second device's context; one thread has the runtime's without having chosen
// a device; one has pushed and popped contexts; one has reset its device. With --runtime, no thread calls the
// driver in the first half of the steps. With --reset, the second device's objects were made after a reset,
// by a thread that has ended. With --children, forked children find that they cannot use what their parent
// uses.
#include <cuda.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "saved.h"

#define CU(what)                                                                                 \
  do {                                                                                           \
    CUresult result_ = (what);                                                                   \
    if (result_ != CUDA_SUCCESS) steplog_fail("line %d: %s: %d", __LINE__, #what, (int)result_); \
  } while (0)

static CUcontext current() {
  CUcontext context = nullptr;
  CU(cuCtxGetCurrent(&context));
  return context;
}

static bool is_active(int device) {
  unsigned flags = 0;
  int active = 0;
  CU(cuDevicePrimaryCtxGetState(device, &flags, &active));
  return active != 0;
}

static std::atomic<int> turn{0};  // the main thread's current step; the other threads answer with theirs
static std::atomic<int> answers[3];
static std::atomic<bool> ended{false};

template <class Step>
static void each_step(int who, Step step) {
  for (int done = 0; !ended;) {
    if (turn == done) {
      std::this_thread::yield();
      continue;
    }
    step(done++);
    answers[who] = done;
  }
}

static void by_the_runtime() {
  DeviceNonce nonce;
  const CUcontext mine = current();
  EXPECT(mine != nullptr);
  each_step(0, [&](int) { EXPECT(current() == mine); });
  nonce.back();
}

// After every other step this thread has no context.
static void by_turns(CUcontext second) {
  each_step(1, [&](int step) {
    if (step % 2) {
      EXPECT(current() == nullptr);
      Buffer<unsigned> some(64);
      const CUcontext its = current();
      EXPECT(its != nullptr && its != second);
      CU(cuCtxPushCurrent(second));  // memory's context is its own device's
      CUcontext owner = nullptr, was = nullptr;
      CU(cuPointerGetAttribute(&owner, CU_POINTER_ATTRIBUTE_CONTEXT,
                               reinterpret_cast<CUdeviceptr>(some.data)));
      EXPECT(owner == its);
      CU(cuCtxPopCurrent(&was));
    } else {
      if (step) EXPECT(current() != nullptr && current() != second);
      CU(cuCtxSetCurrent(nullptr));
      CU(cuCtxPushCurrent(second));
      CUcontext was = nullptr;
      CU(cuCtxPopCurrent(&was));
      EXPECT(was == second && current() == nullptr);
    }
  });
}

static std::atomic<bool> is_reset{false};
static void after_a_reset() {
  CALL(cudaSetDevice(1));
  CALL(cudaDeviceReset());
  is_reset = true;
  each_step(2, [](int) {
    int device = -1;
    CALL(cudaGetDevice(&device));
    EXPECT(device == 1 && current() == nullptr);
  });
}

static void by_the_runtime_alone() {
  DeviceNonce nonce;
  while (steplog_done < steplog_steps) {
    Buffer<unsigned> some(64);
    if (steplog_done > steplog_steps / 2) EXPECT(current() != nullptr);
    steplog_step();
  }
  nonce.back();
  steplog_ok();
}

__device__ unsigned counter = 6;
__global__ void count() { counter++; }

static void behind_a_reset() {
  std::thread([] {
    CALL(cudaSetDevice(1));
    CALL(cudaDeviceReset());
    count<<<1, 1>>>();
    LAUNCHED();
    CALL(cudaDeviceSynchronize());
  }).join();
  unsigned counted = 7, there = 0;
  while (steplog_done < steplog_steps) {
    EXPECT(is_active(1));
    if (steplog_done > steplog_steps / 2) {
      CALL(cudaSetDevice(1));
      count<<<1, 1>>>();
      CALL(cudaMemcpyFromSymbol(&there, counter, sizeof there));
      EXPECT(there == ++counted);
    }
    steplog_step();
  }
  steplog_ok();
}

// The child of a process that has used CUDA cannot use it. Returns the calls with another result.
static int unexpected_in_a_child() {
  void* memory = nullptr;
  CUdeviceptr address = 0;
  CUdevice device = 0;
  return (cudaMalloc(&memory, 64) != cudaErrorInitializationError) |
         (cudaDeviceSynchronize() != cudaErrorInitializationError) << 1 |
         (cuMemAlloc(&address, 64) != CUDA_ERROR_NOT_INITIALIZED) << 2 |
         (cuDeviceGet(&device, 0) != CUDA_ERROR_NOT_INITIALIZED) << 3;
}

static void with_children() {
  DeviceNonce nonce;
  while (steplog_done < steplog_steps) {
    Buffer<unsigned> some(64);
    if (steplog_done % 4 == 0) {
      const pid_t child = fork();
      if (child == 0) _exit(unexpected_in_a_child());
      int status = 0;
      EXPECT(child > 0 && waitpid(child, &status, 0) == child);
      if (status != 0) steplog_fail("the child ended with %#x", status);
    }
    CALL(cudaDeviceSynchronize());
    steplog_step();
  }
  nonce.back();
  steplog_ok();
}

int main(int argc, char** argv) {
  steplog_open(argc, argv, -1);
  if (steplog_has(argc, argv, "--runtime")) {
    by_the_runtime_alone();
    return 0;
  }
  if (steplog_has(argc, argv, "--reset")) {
    behind_a_reset();
    return 0;
  }
  if (steplog_has(argc, argv, "--children")) {
    with_children();
    return 0;
  }
  CU(cuInit(0));
  int devices = 0;
  CALL(cudaGetDeviceCount(&devices));
  EXPECT(devices > 1);
  std::thread reset(after_a_reset);
  while (!is_reset) std::this_thread::yield();
  CUcontext second;
  for (int i = 0; i < 3; ++i) CU(cuDevicePrimaryCtxRetain(&second, 1));
  std::thread first(by_the_runtime), other(by_turns, second);
  while (steplog_done < steplog_steps) {
    ++turn;
    CUdevice device = 0;
    EXPECT(current() == nullptr && cuCtxGetDevice(&device) == CUDA_ERROR_INVALID_CONTEXT);
    for (auto& answer : answers)
      while (answer != turn) std::this_thread::yield();
    steplog_mix(static_cast<uint64_t>(turn));
    steplog_step();
  }
  ended = true;
  first.join();
  other.join();
  reset.join();
  for (int i = 0; i < 3; ++i) {
    EXPECT(is_active(1));
    CU(cuDevicePrimaryCtxRelease(1));
  }
  steplog_ok();
  return 0;
}
