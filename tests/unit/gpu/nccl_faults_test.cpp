// links: gpu_nccl gpu_cuda
// What testers switch, for the kind nccl: a call that fails, a collective that breaks its context, one that
// is slow. Each in a process of its own; both ranks on one device.
#include <cuda.h>
#include <gtest/gtest.h>
#include <nccl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <functional>
#include <thread>

namespace {

using Clock = std::chrono::steady_clock;
constexpr size_t kCount = 10;
constexpr auto kHeld = std::chrono::milliseconds(20);

int in_child(const std::function<int()>& body) {
  pid_t child = fork();
  if (child == 0) {
    alarm(60);
    _exit(body());
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

bool begin(CUdeviceptr* memory, int ranks, ncclComm_t* ends) {
  CUcontext context;
  CUdevice device;
  ncclUniqueId id;
  if (cuInit(0) || cuDeviceGet(&device, 0) || cuDevicePrimaryCtxRetain(&context, device) ||
      cuCtxSetCurrent(context) || cuMemAlloc(memory, 2 * kCount) || ncclGetUniqueId(&id) || ncclGroupStart())
    return false;
  for (int rank = 0; rank < ranks; rank++)
    if (ncclCommInitRank(&ends[rank], ranks, id, rank)) return false;
  return ncclGroupEnd() == ncclSuccess;
}

void* at(CUdeviceptr address) { return reinterpret_cast<void*>(address); }

TEST(NcclFaults, InjectedErrorsAnswerTheCallOrBreakTheContext) {
  EXPECT_EQ(in_child([] {
              setenv("CROPDL_SOFTWARE_GPU_FAIL", "nccl:2:2,nccl:3", 1);
              CUdeviceptr memory;
              ncclComm_t comm;
              if (!begin(&memory, 1, &comm)) return 1;
              auto sum = [&] {
                return ncclAllReduce(at(memory), at(memory), kCount, ncclInt8, ncclSum, comm, nullptr);
              };
              if (sum() || cuStreamSynchronize(nullptr)) return 2;
              if (sum() != ncclUnhandledCudaError || cuStreamSynchronize(nullptr)) return 3;
              const ncclResult_t third = sum();  // which may hear of it already
              if (third != ncclSuccess && third != ncclUnhandledCudaError) return 4;
              return cuStreamSynchronize(nullptr) == CUDA_ERROR_LAUNCH_FAILED ? 0 : 5;
            }),
            0);
}

TEST(NcclFaults, ASlowDownTakesAtLeastSoManyTimesLonger) {
  EXPECT_EQ(in_child([] {
              setenv("CROPDL_SOFTWARE_GPU_SLOW", "nccl:5", 1);
              CUdeviceptr memory;
              ncclComm_t comms[2];
              CUstream streams[2];
              if (!begin(&memory, 2, comms)) return 1;
              for (CUstream& stream : streams)
                if (cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING)) return 2;
              // Rank 0's work has begun when rank 1 has received, and cannot end before rank 1 sends.
              auto stream = [&](int rank) { return reinterpret_cast<cudaStream_t>(streams[rank]); };
              if (ncclGroupStart() || ncclSend(at(memory), 1, ncclInt8, 1, comms[0], stream(0)) ||
                  ncclRecv(at(memory + 1), 1, ncclInt8, 1, comms[0], stream(0)) || ncclGroupEnd())
                return 3;
              Clock::time_point held;
              auto hold = [](void* at) {
                *static_cast<Clock::time_point*>(at) = Clock::now();
                std::this_thread::sleep_for(kHeld);
              };
              if (ncclRecv(at(memory + 2), 1, ncclInt8, 0, comms[1], stream(1)) ||
                  cuLaunchHostFunc(streams[1], hold, &held) ||
                  ncclSend(at(memory + 3), 1, ncclInt8, 0, comms[1], stream(1)))
                return 4;
              if (cuStreamSynchronize(streams[0])) return 5;
              auto took = Clock::now() - held;
              if (cuStreamSynchronize(streams[1])) return 6;
              return took >= 5 * kHeld ? 0 : 7;
            }),
            0);
}

}  // namespace
