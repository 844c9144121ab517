// Managed memory at addresses that a restart restores. The program's blocks are packed into large regions
// (cuMemAllocManaged) that are steered to fixed addresses (steering.h); the address is checked. If the driver
// cannot be steered, a fresh program's regions are where the driver places them; a restart requests the same
// addresses and is refused if the driver gives others. Each region belongs to one device, because it ends
// with the context that it was made in. LH, LH FS base; driver calls use the calling thread's context.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "base/result.h"
#include "gpu_state/memory/advice.h"
#include "gpu_state/memory/blocks.h"
#include "gpu_state/memory/driver.h"
#include "gpu_state/memory/ranges.h"

namespace cropdl::memory {

class Managed {
 public:
  // All three must outlive it.
  Managed(const Driver& driver, Blocks& blocks, Advised& advised);

  // In a restarted process, as early as possible: makes all regions that hold blocks again at their
  // addresses, each in its device's context, which `context_of` returns and keeps. Contents are unspecified.
  Status restore(const std::function<CUcontext(int device)>& context_of);

  // `device`: of the current primary context. `flags`: kept with the block. CUDA_ERROR_INVALID_VALUE: size 0.
  CUresult allocate(uint64_t size, unsigned flags, int device, Block** block);
  // The caller has waited for all work that may still use the block.
  void release(Block* block);
  // Call when the device's context has ended, and with it all of the device's blocks and regions.
  void forget(int device);

  // "", or why a restart could not restore existing memory: the driver chose its address.
  std::string refusal() const;

 private:
  struct RegionUse {
    ManagedRegion* record;
    uint64_t used = 0;      // bytes of blocks
    bool reserved = false;  // its addresses and its gap were taken from addresses_
  };
  struct OfDevice {
    Ranges free;                     // within the device's regions
    ManagedRegion* spare = nullptr;  // an empty region that is kept
  };
  CUresult grow(uint64_t size, int device, ManagedRegion** made);
  void drop(ManagedRegion* region);
  RegionUse& region_of(uint64_t address);
  OfDevice& of(const ManagedRegion* region) { return devices_[region->device]; }
  void open(ManagedRegion* region, bool reserved);
  void give_back(uint64_t begin, uint64_t end);

  const Driver& driver_;
  Blocks& blocks_;
  Advised& advised_;
  Ranges addresses_;  // for regions
  OfDevice devices_[kDevices];
  std::map<uint64_t, RegionUse> uses_;  // by begin
};

}  // namespace cropdl::memory
