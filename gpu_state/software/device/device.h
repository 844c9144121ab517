// The devices of this process. Made at the first cuInit, never taken down (as a driver's: a process that ends
// just ends).
#pragma once

#include <cuda.h>

#include <memory>

#include "gpu_state/software/engine/launch.h"

namespace cropdl::device {

class Memory;

class Device {
 public:
  explicit Device(int ordinal);
  ~Device();
  const int ordinal;
  Memory& memory() { return *memory_; }
  engine::Processors& processors() { return *processors_; }
  // Attribute of that number as CU_DEVICE_ATTRIBUTE_…; CUDA_ERROR_INVALID_VALUE for one that there is not.
  CUresult attribute(int* value, CUdevice_attribute which) const;
  CUcontext primary();  // made on first use, retained by cuDevicePrimaryCtxRetain

 private:
  std::unique_ptr<Memory> memory_;
  std::unique_ptr<engine::Processors> processors_;
  CUcontext primary_ = nullptr;
};

int count();
Device* find(int ordinal);  // null: there is none

}  // namespace cropdl::device
