#include "interpose/cuda/lower/device_drain.h"

#include <condition_variable>
#include <mutex>
#include <thread>

#include "base/format.h"
#include "base/time.h"
#include "interpose/cuda/lower/captures.h"
#include "interpose/cuda/lower/real.h"
#include "interpose/seam/state.h"

namespace cropdl::cuda {
namespace {

// Waits for all work of a device, on a thread of its own. Pending work may wait for the host, and an enqueued
// probe would make other streams wait. The thread never ends; one wait at a time.
class Waiter {
 public:
  explicit Waiter(int device) : device_(device) {
    std::thread([this] { run(); }).detach();
  }
  // Asks for all work enqueued before the call. Returns a number above 0.
  uint64_t ask() {
    const std::lock_guard lock(mutex_);
    ++asked_;
    wake_.notify_one();
    return asked_;
  }
  // Whether that work is done, and with which result.
  bool done(uint64_t asked, CUresult* result) {
    const std::lock_guard lock(mutex_);
    *result = result_;
    return done_ >= asked;
  }

 private:
  // False if the attempt was given up meanwhile, or is about to be refused.
  static bool is_wanted() {
    return (seam::control()->attention & seam::kAttentionStop) != 0 && !captures_under_way();
  }
  void run() {
    auto mode = CU_STREAM_CAPTURE_MODE_RELAXED;  // does not disturb captures that others begin meanwhile
    CROPDL_DRIVER(cuThreadExchangeStreamCaptureMode)(&mode);
    std::unique_lock lock(mutex_);
    for (;;) {
      wake_.wait(lock, [this] { return done_ != asked_; });
      const uint64_t asked = asked_;
      lock.unlock();
      CUresult result = CUDA_ERROR_NOT_READY;
      if (is_wanted()) {
        const OnDevice on(device_);
        result = on.fine() ? CROPDL_DRIVER(cuCtxSynchronize)() : CUDA_ERROR_INVALID_CONTEXT;
      }
      lock.lock();
      done_ = asked;
      result_ = result;
    }
  }

  const int device_;
  std::mutex mutex_;
  std::condition_variable wake_;
  uint64_t asked_ = 0, done_ = 0;
  CUresult result_ = CUDA_SUCCESS;
};

// Made once per device; exists as long as the process.
Waiter& waiter(int device) {
  static auto& mutex = *new std::mutex;
  static Waiter* all[kMostDevices];
  const std::lock_guard lock(mutex);
  if (!all[device]) all[device] = new Waiter(device);
  return *all[device];
}

std::string goes_on_too_long() {
  return formatted(
      "the device has not come to its end within {} s: a kernel runs that long, or waits for the host; ask "
      "again",
      kLongestWait / 1'000'000);
}

}  // namespace

void IdleWatch::begin() {
  if (!driver_begun()) return;
  for (int d = 0; d < device_count(); ++d) asked_[d] = device_used(d) ? waiter(d).ask() : 0;
}

int IdleWatch::look() {
  for (int d = 0; d < kMostDevices; ++d) {
    CUresult result = CUDA_SUCCESS;
    if (!asked_[d]) continue;
    if (!waiter(d).done(asked_[d], &result)) return CUDA_ERROR_NOT_READY;
    if (result != CUDA_SUCCESS) return result;
    asked_[d] = 0;
  }
  return CUDA_SUCCESS;
}

void DeviceDrain::begin(int64_t since) {
  error_ = 0;
  watching_ = false;
  begun_at_ = since;
  draining_ = true;
}

bool DeviceDrain::step() {
  if (!watching_) watch_.begin();
  watching_ = true;
  const int result = watch_.look();
  if (result == CUDA_SUCCESS)
    draining_ = false;
  else if (result != CUDA_ERROR_NOT_READY)
    error_ = result;
  return result == CUDA_SUCCESS;
}

std::string awaited_device(int64_t since) {
  if (monotonic_us() - since <= kLongestWait) return "";
  const auto* s = seam::state();
  bool waits = s->threads[0].in_device_call != 0;
  for (uint32_t i = 1; i < s->threads_high; ++i)
    waits |= s->threads[i].used == seam::kLive && s->threads[i].in_device_call != 0;
  return waits ? goes_on_too_long() : "";
}

std::string DeviceDrain::trouble() const {
  if (error_ != 0)
    return formatted(
        "a kernel or copy on the device has failed (CUDA error {}): what the device holds is lost",
        error_.load());
  return draining_ && monotonic_us() - begun_at_ > kLongestWait ? goes_on_too_long() : "";
}

}  // namespace cropdl::cuda
