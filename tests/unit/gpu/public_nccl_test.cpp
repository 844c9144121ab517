// links: gpu_public_nccl gpu_cuda cropdl_base
// NCCL over the public driver API (cropdl-run --software-nccl), beside what tests/apps/cuda tests: the kinds
// of memory, what it refuses, errors after which streams go on, and that nothing is left. Both ranks are on
// device 0.
#include <cuda.h>
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <nccl.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <thread>
#include <vector>

namespace {

std::atomic<bool> lacks_memory_operations{false};
std::vector<CUstream> waiting;  // the streams of the library's waits, in order

}  // namespace

// Before the software GPU's, for the library, too.
extern "C" CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute which, CUdevice device) {
  static const auto kDrivers =
      reinterpret_cast<decltype(&cuDeviceGetAttribute)>(dlsym(RTLD_NEXT, "cuDeviceGetAttribute"));
  const CUresult result = kDrivers(value, which, device);
  if (which == CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS && lacks_memory_operations) *value = 0;
  return result;
}

extern "C" CUresult cuStreamWaitValue64(CUstream stream, CUdeviceptr address, cuuint64_t value,
                                        unsigned flags) {
  static const auto kDrivers =
      reinterpret_cast<decltype(&cuStreamWaitValue64)>(dlsym(RTLD_NEXT, "cuStreamWaitValue64_v2"));
  waiting.push_back(stream);
  return kDrivers(stream, address, value, flags);
}

namespace {

constexpr size_t kCount = 1000;
const bool kDevices = setenv("CROPDL_SOFTWARE_GPUS", "2", 1) == 0;

void* at(CUdeviceptr address) { return reinterpret_cast<void*>(address); }

size_t threads() {
  const std::filesystem::directory_iterator all("/proc/self/task");
  return static_cast<size_t>(std::distance(begin(all), end(all)));
}

class PublicNccl : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(kDevices);
    ASSERT_EQ(cuInit(0), CUDA_SUCCESS);
    for (int device : {1, 0}) ASSERT_EQ(cuDevicePrimaryCtxRetain(&contexts_[device], device), CUDA_SUCCESS);
    ASSERT_EQ(cuCtxSetCurrent(contexts_[0]), CUDA_SUCCESS);
    for (CUstream& stream : streams_)
      ASSERT_EQ(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
  }
  void make() {
    ncclUniqueId id;
    ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
    ncclGroupStart();
    for (int rank : {0, 1}) ASSERT_EQ(ncclCommInitRank(&comms_[rank], 2, id, rank), ncclSuccess);
    ASSERT_EQ(ncclGroupEnd(), ncclSuccess);
  }
  // The sum of both ranks' values 1 and 2, of memory and to memory of any kind.
  void expect_sum(CUdeviceptr (*allocate)(size_t), CUcontext owner) {
    CUdeviceptr memory[2];
    for (int rank : {0, 1}) {
      ASSERT_EQ(cuCtxSetCurrent(owner), CUDA_SUCCESS);
      ASSERT_NE(memory[rank] = allocate(2 * kCount), 0u);
      ASSERT_EQ(cuMemsetD8(memory[rank], static_cast<unsigned char>(rank + 1), kCount), CUDA_SUCCESS);
      ASSERT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
    }
    ASSERT_EQ(cuCtxSetCurrent(contexts_[0]), CUDA_SUCCESS);
    for (int rank : {0, 1})
      ASSERT_EQ(ncclAllReduce(at(memory[rank]), at(memory[rank] + kCount), kCount, ncclInt8, ncclSum,
                              comms_[rank], stream(rank)),
                ncclSuccess)
          << ncclGetLastError(nullptr);
    for (int rank : {0, 1}) {
      std::vector<char> found(kCount);
      ASSERT_EQ(cuStreamSynchronize(streams_[rank]), CUDA_SUCCESS);
      ASSERT_EQ(cuMemcpy(reinterpret_cast<CUdeviceptr>(found.data()), memory[rank] + kCount, kCount),
                CUDA_SUCCESS);
      EXPECT_EQ(found, std::vector<char>(kCount, 3));
    }
  }
  cudaStream_t stream(int rank) const { return reinterpret_cast<cudaStream_t>(streams_[rank]); }

  CUcontext contexts_[2] = {};
  CUstream streams_[2] = {};
  ncclComm_t comms_[2] = {};
};

CUdeviceptr device_memory(size_t bytes) {
  CUdeviceptr made = 0;
  return cuMemAlloc(&made, bytes) == CUDA_SUCCESS ? made : 0;
}
CUdeviceptr managed_memory(size_t bytes) {
  CUdeviceptr made = 0;
  return cuMemAllocManaged(&made, bytes, CU_MEM_ATTACH_GLOBAL) == CUDA_SUCCESS ? made : 0;
}
CUdeviceptr pinned_memory(size_t bytes) {
  void* made = nullptr;
  return cuMemHostAlloc(&made, bytes, 0) == CUDA_SUCCESS ? reinterpret_cast<CUdeviceptr>(made) : 0;
}

TEST_F(PublicNccl, TakesMemoryOfEveryKindAndLeavesNothing) {
  std::thread([] {}).join();  // ThreadSanitizer makes its own with the first one
  const size_t before = threads();
  make();
  expect_sum(device_memory, contexts_[0]);
  expect_sum(device_memory, contexts_[1]);  // of another device
  expect_sum(managed_memory, contexts_[0]);
  expect_sum(pinned_memory, contexts_[1]);
  for (ncclComm_t comm : comms_) ASSERT_EQ(ncclCommDestroy(comm), ncclSuccess);
  for (int i = 0; i < 6000 && threads() > before; i++) usleep(10'000);  // streams end theirs after a while
  EXPECT_LE(threads(), before);
}

TEST_F(PublicNccl, RefusesMemoryThatTheDriverDoesNotKnow) {
  make();
  std::vector<char> pageable(kCount);
  for (const auto& [send, receive] : {std::pair<void*, void*>(pageable.data(), at(device_memory(kCount))),
                                      {at(device_memory(kCount)), pageable.data()}}) {
    EXPECT_EQ(ncclAllReduce(send, receive, kCount, ncclInt8, ncclSum, comms_[0], stream(0)),
              ncclInvalidArgument);
    EXPECT_STREQ(ncclGetLastError(nullptr),
                 "ncclAllReduce is given memory that is neither a device's nor pinned");
  }
  expect_sum(device_memory, contexts_[0]);  // nothing of those was begun
}

TEST_F(PublicNccl, StreamsGoOnWhereRanksCallDifferentThings) {
  make();
  for (int rank : {0, 0, 1})  // rank 0's second call is not waited for any more
    ASSERT_EQ(
        ncclAllReduce(at(device_memory(kCount)), at(device_memory(kCount)),
                      kCount - static_cast<size_t>(rank), ncclInt8, ncclSum, comms_[rank], stream(rank)),
        ncclSuccess);
  for (int rank : {0, 1}) {
    EXPECT_EQ(cuStreamSynchronize(streams_[rank]), CUDA_SUCCESS);
    ncclResult_t state = ncclSuccess;
    EXPECT_EQ(ncclCommGetAsyncError(comms_[rank], &state), ncclSuccess);
    EXPECT_EQ(state, ncclInvalidUsage);
    EXPECT_EQ(ncclCommAbort(comms_[rank]), ncclSuccess);
  }
  make();
  expect_sum(device_memory, contexts_[0]);
}

// A stream takes so much work only: it would block the thread that has yet to launch the other rank.
TEST_F(PublicNccl, RanksOfAGroupTakeTurns) {
  make();
  constexpr size_t kLarge = 9 << 20;
  waiting.clear();
  ASSERT_EQ(ncclGroupStart(), ncclSuccess);
  for (int rank : {0, 1})
    ASSERT_EQ(ncclAllReduce(at(device_memory(kLarge)), at(device_memory(kLarge)), kLarge, ncclInt8, ncclSum,
                            comms_[rank], stream(rank)),
              ncclSuccess);
  ASSERT_EQ(ncclGroupEnd(), ncclSuccess);
  ASSERT_GE(waiting.size(), 8u);
  for (size_t i = 0; i < waiting.size(); i++) EXPECT_EQ(waiting[i], streams_[i % 2]) << i;
  for (CUstream one : streams_) EXPECT_EQ(cuStreamSynchronize(one), CUDA_SUCCESS);
}

TEST_F(PublicNccl, NeedsMemoryOperationsOfStreams) {
  ncclUniqueId id;
  ncclComm_t comm = nullptr;
  ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  lacks_memory_operations = true;
  EXPECT_EQ(ncclCommInitRank(&comm, 1, id, 0), ncclInvalidUsage);
  lacks_memory_operations = false;
  EXPECT_NE(strstr(ncclGetLastError(nullptr), "device 0 has no stream memory operations"), nullptr);
  EXPECT_EQ(comm, nullptr);
}

TEST_F(PublicNccl, RefusesRanksOfOtherMachines) {
  ncclUniqueId id;
  ncclComm_t comm = nullptr;
  ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  id.internal[40] ^= 1;  // in the machine's mark
  EXPECT_EQ(ncclCommInitRank(&comm, 2, id, 0), ncclInvalidUsage);
  EXPECT_NE(strstr(ncclGetLastError(nullptr), "on another machine"), nullptr);
}

}  // namespace
