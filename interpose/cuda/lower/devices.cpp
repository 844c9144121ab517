#include "interpose/cuda/lower/devices.h"

#include <algorithm>

#include "interpose/cuda/lower/real.h"

namespace cropdl::cuda {

int device_count() {
  int count = 0;
  return CROPDL_DRIVER(cuDeviceGetCount)(&count) == CUDA_SUCCESS ? std::min(count, kMostDevices) : 0;
}

int device_attribute(CUdevice_attribute what, int device) {
  int value = 0;
  return CROPDL_DRIVER(cuDeviceGetAttribute)(&value, what, device) == CUDA_SUCCESS ? value : 0;
}

bool device_used(int device) {
  unsigned flags = 0;
  int active = 0;
  return CROPDL_DRIVER(cuDevicePrimaryCtxGetState)(device, &flags, &active) == CUDA_SUCCESS && active != 0;
}

std::vector<int> used_devices() {
  std::vector<int> all;
  if (!driver_begun()) return all;
  for (int d = 0; d < device_count(); ++d)
    if (device_used(d)) all.push_back(d);
  return all;
}

OnDevice::OnDevice(int device) : device_(device) {
  CUcontext context = nullptr;
  retained_ = CROPDL_DRIVER(cuDevicePrimaryCtxRetain)(&context, device) == CUDA_SUCCESS;
  fine_ = retained_ && CROPDL_DRIVER(cuCtxPushCurrent_v2)(context) == CUDA_SUCCESS;
}
OnDevice::~OnDevice() {
  CUcontext was = nullptr;
  if (fine_) CROPDL_DRIVER(cuCtxPopCurrent_v2)(&was);
  if (retained_) CROPDL_DRIVER(cuDevicePrimaryCtxRelease_v2)(device_);
}

}  // namespace cropdl::cuda
