// Managed memory at addresses that a restart gives back: large regions of the driver's (cuMemAllocManaged),
// steered to fixed addresses (steering.h) and looked at, in which the program's blocks are packed. Where the
// driver does not let itself be steered, a fresh program's regions lie where it puts them; a restart asks for
// the same addresses, and is refused where they do not come. A region is one device's, for it ends with the
// context that it was made in. LH, LH FS base; calls of the driver's are made in the calling thread's
// context.
#pragma once

#include <array>
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
  // All outlive it.
  Managed(const Driver& driver, Blocks& blocks, Advised& advised);

  // In a restarted process, as early as can be: all regions that hold blocks, at their addresses, each in its
  // device's context, which whoever is asked for it keeps. Contents are unspecified. The error is one line
  // for people.
  Status restore(const std::function<CUcontext(int device)>& context_of);

  // `device`: whose primary context the calling thread's is; `flags`: kept with the block.
  // CUDA_ERROR_INVALID_VALUE: size 0.
  CUresult allocate(uint64_t size, unsigned flags, int device, Block** block);
  // Whoever calls has waited for all work that may still use it.
  void release(Block* block);
  // The device's context has ended, and with it all blocks and regions of the device.
  void forget(int device);

  // "", or why what lives could not be had again by a restart: the driver put it where it wanted to.
  std::string refusal() const;

 private:
  struct RegionUse {
    ManagedRegion* record;
    uint64_t used = 0;  // bytes of blocks
  };
  struct OfDevice {
    Ranges free;                     // within its regions
    ManagedRegion* spare = nullptr;  // one without a block that is kept
  };
  CUresult grow(uint64_t size, int device, ManagedRegion** made);
  void drop(ManagedRegion* region, bool gone = false);
  RegionUse& region_of(uint64_t address);
  OfDevice& of(const ManagedRegion* region) { return devices_[static_cast<size_t>(region->device)]; }
  void open(ManagedRegion* region);
  void give_back(uint64_t begin, uint64_t end);
  void reserve_around(const ManagedRegion& region);

  const Driver& driver_;
  Blocks& blocks_;
  Advised& advised_;
  Ranges addresses_;  // for regions
  std::array<OfDevice, kDevices> devices_;
  std::map<uint64_t, RegionUse> uses_;  // by begin
};

}  // namespace cropdl::memory
