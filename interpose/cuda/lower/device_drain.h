// Waits at a cut until the devices have finished all work, so their memory can be read. LH, LH FS base.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "interpose/cuda/lower/devices.h"

namespace cropdl::cuda {

// Tells whether devices have finished all work submitted before begin(). Polls and never blocks inside a
// library, since a kernel may wait for the host. Any thread, one at a time.
class IdleWatch {
 public:
  void begin();
  // CUDA_SUCCESS; CUDA_ERROR_NOT_READY: not finished; else the error of a failed kernel or copy.
  int look();

 private:
  uint64_t asked_[kMostDevices] = {};  // 0: nothing to wait for
};

// In us. The program is stopped while devices drain, and kernels that wait for the host never end, so the
// wait is bounded. Well below the bound of an attempt (coord/cut.h), which would only try again.
inline constexpr int64_t kLongestWait = 5'000'000;

// "", or the refusal if a thread that should stop has been inside a device call for too long. `since`: when
// it was asked to stop (monotonic_us). AGENT.
std::string awaited_device(int64_t since);

// Serves attempts in sequence, each from begin() on. MAIN while the program is stopped, or as stated.
class DeviceDrain {
 public:
  // `since`: when the wait for the program began (monotonic_us).
  void begin(int64_t since);
  // Poll after begin(). The first call begins the wait; nothing more is launched by then.
  bool step();
  // "", or why the devices will never be idle: a kernel failed, and with it its context. AGENT or MAIN.
  std::string trouble() const;

 private:
  IdleWatch watch_;
  bool watching_ = false;
  std::atomic<bool> draining_{false};
  std::atomic<int64_t> begun_at_{0};
  std::atomic<int> error_{0};  // of a failed kernel or copy
};

}  // namespace cropdl::cuda
