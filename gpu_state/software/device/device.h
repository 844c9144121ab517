// The devices of this process: those of CROPDL_SOFTWARE_GPUS that CUDA_VISIBLE_DEVICES selects, in its order.
// Made at the first cuInit, never destroyed, as with a real driver. Any thread.
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
  // `physical`: the device's number before CUDA_VISIBLE_DEVICES. Its identifiers derive from it.
  Device(int ordinal, int physical);
  ~Device();
  const int ordinal, physical;
  Memory& memory();                   // made on first use
  engine::WorkerPool& worker_pool();  // made on first use
  // The attribute CU_DEVICE_ATTRIBUTE_…; CUDA_ERROR_INVALID_VALUE: unknown.
  CUresult attribute(int* value, CUdevice_attribute which) const;
  CUuuid uuid() const;
  std::string pci_bus_id() const;  // 0000:41:00.0

 private:
  std::once_flag memory_made_, processors_made_;
  std::unique_ptr<Memory> memory_;
  std::unique_ptr<engine::WorkerPool> worker_pool_;
};

// cuInit. CUDA_ERROR_NO_DEVICE: no device is visible. CUDA_ERROR_NOT_INITIALIZED in a child that was forked
// after its parent's cuInit, as the driver does: the devices' threads are not in the child.
CUresult initialize();

int count();                // 0 before initialize()
Device* find(int ordinal);  // null: none

// A multiprocessor's limits by compute capability (CROPDL_SOFTWARE_GPU_CAPABILITY). Source: CUDA C++
// Programming Guide, "Technical Specifications per Compute Capability".
struct Capability {
  int threads, blocks;           // resident at once
  int shared, shared_per_block;  // bytes; per block: with opt-in
  int shared_reserved;           // reserved per block by the system
};
Capability capability();

// cuDeviceGetUuid's bytes in the notation of CUDA_VISIBLE_DEVICES: GPU-6465…
std::string text_of(const CUuuid& uuid);

}  // namespace cropdl::device
