// The devices that the program uses, as a cut and a restart see them. LH, LH FS base; the main thread while
// the program is stopped (MAIN) or before it runs (START).
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "interpose/one_abi/state.h"

namespace cropdl::cuda {

constexpr int kMostDevices = one_abi::kMaxDevices;
// Whether the state has room for the device.
inline bool has_number(int device) { return device >= 0 && device < kMostDevices; }

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

// --- At a cut. MAIN. All launched work ends before any memory is read. `since`: when the wait for the
// program began (monotonic_us).
void begin_drain_of_devices(int64_t since);
// Poll after begin_drain_of_devices(). The first call begins the wait; nothing more is launched by then.
bool devices_idle();
// "", or why the devices will never be idle: a kernel failed, and with it its context. AGENT or MAIN.
std::string idle_trouble();

// --- What a restart compares; kept with the family's state. MAIN, once the devices are idle.
Status note_devices();
Status note_libraries();
std::string noted_devices();  // in use, for people: "2 x NVIDIA H100 (compute capability 9.0)"
// START: opens the files used before, or files of the same names; the error is a line that names a missing
// one.
Status open_libraries();
// START: checks that this process has what the image needs; the error is one line that names what is missing.
Status compare_devices();
uint64_t devices_of_image();  // the devices that the program used, one bit each
// Lines for people: the program continues on another model of the same architecture, or with another version
// of a library.
const std::vector<std::string>& other_devices();

// START: records the program's recorded events once more, so that waits for them end.
Status record_events();

// Makes the device's primary context current; the destructor restores the thread's own.
class OnDevice {
 public:
  explicit OnDevice(int device);
  ~OnDevice();
  OnDevice(const OnDevice&) = delete;
  bool fine() const { return fine_; }

 private:
  int device_;
  bool retained_ = false, fine_ = false;
};

int device_count();            // 0: no device, or no driver
bool device_used(int device);  // its primary context is active
std::vector<int> used_devices();

}  // namespace cropdl::cuda
