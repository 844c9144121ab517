// For tests of streams, events, capture and graphs: a primary context, work that leaves a trace, and work
// that waits until it is let on.
#pragma once

#include <cuda.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <functional>
#include <mutex>
#include <vector>

#include "gpu_state/software/device/library_work.h"

#define ASSERT_CU(call) ASSERT_EQ((call), CUDA_SUCCESS)
#define EXPECT_CU(call) EXPECT_EQ((call), CUDA_SUCCESS)

// What ran, in its order. Any thread.
class Trace {
 public:
  void add(int number) {
    std::lock_guard lock(mutex_);
    numbers_.push_back(number);
  }
  std::vector<int> numbers() const {
    std::lock_guard lock(mutex_);
    return numbers_;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<int> numbers_;
};

// Closed until it is opened.
class Gate {
 public:
  ~Gate() { open(); }
  void open() {
    std::lock_guard lock(mutex_);
    is_open_ = true;
    opened_.notify_all();
  }
  void pass() {
    std::unique_lock lock(mutex_);
    opened_.wait(lock, [&] { return is_open_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable opened_;
  bool is_open_ = false;
};

class StreamTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_CU(cuInit(0));
    ASSERT_CU(cuDeviceGet(&device_, 0));
    ASSERT_CU(cuDevicePrimaryCtxRetain(&context_, device_));
    ASSERT_CU(cuCtxSetCurrent(context_));
  }
  void TearDown() override {
    EXPECT_CU(cuCtxSynchronize());
    EXPECT_CU(cuDevicePrimaryCtxRelease_v2(device_));
  }

  static CUstream stream(unsigned flags = CU_STREAM_NON_BLOCKING) {
    CUstream made = nullptr;
    EXPECT_CU(cuStreamCreate(&made, flags));
    return made;
  }
  static CUevent event(unsigned flags = CU_EVENT_DEFAULT) {
    CUevent made = nullptr;
    EXPECT_CU(cuEventCreate(&made, flags));
    return made;
  }

  // Work on the stream's own thread.
  static CUresult run(CUstream stream, std::function<void()> function) {
    auto* kept = new std::function<void()>(std::move(function));
    CUresult error = cropdl_software_gpu_enqueue(
        stream, "test",
        [](void* data) {
          (*static_cast<std::function<void()>*>(data))();
          return CUDA_SUCCESS;
        },
        [](void* data) { delete static_cast<std::function<void()>*>(data); }, kept);
    if (error != CUDA_SUCCESS) delete kept;
    return error;
  }
  CUresult note(CUstream stream, int number) {
    return run(stream, [this, number] { trace_.add(number); });
  }
  CUresult hold(CUstream stream) {
    return run(stream, [this] { gate_.pass(); });
  }

  CUdevice device_ = 0;
  CUcontext context_ = nullptr;
  Trace trace_;
  Gate gate_;
};
