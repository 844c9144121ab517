// The devices that the program uses. LH, LH FS base, any thread.
#pragma once

#include <cuda.h>

#include <vector>

#include "interpose/one_abi/state.h"

namespace cropdl::cuda {

constexpr int kMostDevices = one_abi::kMaxDevices;
// Whether the state has room for the device.
inline bool has_number(int device) { return device >= 0 && device < kMostDevices; }

int device_count();                                         // 0: no device, or no driver
int device_attribute(CUdevice_attribute what, int device);  // 0 also if it is not known
bool device_used(int device);                               // its primary context is active
std::vector<int> used_devices();

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

}  // namespace cropdl::cuda
