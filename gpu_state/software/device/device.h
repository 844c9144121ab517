// The devices of this process: those of CROPDL_SOFTWARE_GPUS that CUDA_VISIBLE_DEVICES lets through, in its
// order. Made at the first cuInit, never taken down (as a driver's: a process that ends just ends). Any
// thread.
#pragma once

#include <cuda.h>

#include <memory>
#include <mutex>
#include <string>

#include "gpu_state/software/engine/launch.h"

namespace cropdl::device {

class Memory;

class Device {
 public:
  // `physical` is the number of the device before CUDA_VISIBLE_DEVICES: identifiers come from it.
  Device(int ordinal, int physical);
  ~Device();
  const int ordinal, physical;
  Memory& memory();                   // made on first use
  engine::WorkerPool& worker_pool();  // made on first use
  // Attribute of that number as CU_DEVICE_ATTRIBUTE_…; CUDA_ERROR_INVALID_VALUE for one that there is not.
  CUresult attribute(int* value, CUdevice_attribute which) const;
  CUuuid uuid() const;
  std::string pci_bus_id() const;           // 0000:41:00.0
  CUcontext primary() { return primary_; }  // is alive only while retained (context.h)

 private:
  std::once_flag memory_made_, processors_made_;
  std::unique_ptr<Memory> memory_;
  std::unique_ptr<engine::WorkerPool> worker_pool_;
  CUcontext primary_ = nullptr;
};

// cuInit: CUDA_ERROR_NO_DEVICE when none is visible; CUDA_ERROR_NOT_INITIALIZED in a child that was forked
// after its parent's, as the driver has it: the threads of the devices are not in the child.
CUresult initialize();

int count();                // 0 before initialize()
Device* find(int ordinal);  // null: there is none

// What the compute capability (CROPDL_SOFTWARE_GPU_CAPABILITY) says of a multiprocessor. Source: CUDA C++
// Programming Guide, "Technical Specifications per Compute Capability".
struct Capability {
  int threads, blocks;           // resident at once
  int shared, shared_per_block;  // bytes; of a block that opted in
  int shared_reserved;           // of each block, the system's
};
Capability capability();

// cuDeviceGetUuid's bytes as people and CUDA_VISIBLE_DEVICES write them: GPU-6465…
std::string text_of(const CUuuid& uuid);

}  // namespace cropdl::device
