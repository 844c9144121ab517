// The devices that the program uses, as a cut and a restart see them. LH; the main thread while the program
// is stopped (MAIN) or not yet there (START), LH FS base.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "interpose/one_abi/state.h"

namespace cropdl::cuda {

constexpr int kMostDevices = one_abi::kMaxDevices;

// Whether devices have come to the end of all that they were given before begin(). Only looks, never waits
// inside a library: a kernel may wait for the host. Any thread, one at a time.
class IdleWatch {
 public:
  void begin();
  // CUDA_SUCCESS; CUDA_ERROR_NOT_READY: not yet; else how a kernel or copy has failed.
  int look();

 private:
  uint64_t asked_[kMostDevices] = {};  // 0: nothing more to wait for
};

// The program stands still while devices are awaited, so no longer than it would bear; kernels that wait for
// the host never end. Well below the bound of an attempt (coord/cut.h), which would only try again.
inline constexpr int64_t kLongestWait = 5'000'000;  // us

// "", or that the device is waited for too long by a thread that is to stop, which has been asked to since
// then (monotonic_us). AGENT.
std::string awaited_device(int64_t since);

// --- At a cut. MAIN. Everything that was launched is done before anything is read.
// `since`: the program has been waited for since then (monotonic_us).
void begin_drain_of_devices(int64_t since);
bool devices_idle();  // after that; often. The first call begins to look: by then nothing more is launched
// "" or why the devices will never be idle: a kernel failed, and with it its context. AGENT or MAIN.
std::string idle_trouble();

// --- What a restart compares. MAIN, once the devices are idle: kept with the family's state.
void note_devices();
void note_libraries();
std::string noted_devices();  // that the program uses, for people: "2 x NVIDIA H100 (compute capability 9.0)"
// START: the files that were called, or those here of their names; one line that names a missing one.
Status open_libraries();
// START: that this process has what the image needs; one line that names what is missing.
Status compare_devices();
uint64_t devices_of_image();  // those that the program used, a bit for each
// "" or a line for people: continued on another model of the same architecture.
std::string other_devices();

// START: what stands for work of before is done work: events that were recorded are recorded once.
Status record_events();

// With the device's primary context current, the thread's own as it was afterwards.
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

int device_count();            // 0: none, or no driver
bool device_used(int device);  // its primary context is alive
std::vector<int> used_devices();

}  // namespace cropdl::cuda
