// The program's advice (cuMemAdvise) and prefetches of managed memory: passed to the driver, recorded for
// ranges of pages, repeated at a restart. It is not read back from the driver, because cuMemRangeGetAttribute
// describes a range as a whole and cannot tell pages that differ. LH, LH FS base, any thread.
#pragma once

#include <functional>
#include <map>

#include "base/result.h"
#include "gpu_state/memory/blocks.h"
#include "gpu_state/memory/driver.h"

namespace cropdl::memory {

class Advised {
 public:
  // Both must outlive it. Indexes the existing records.
  Advised(const Driver& driver, Blocks& blocks);

  // As the driver's functions. CUDA_ERROR_INVALID_VALUE: the range is not within one block of managed memory.
  CUresult advise(CUdeviceptr address, uint64_t size, CUmem_advise advice, CUmemLocation location);
  CUresult prefetch(CUdeviceptr address, uint64_t size, CUmemLocation location, unsigned flags,
                    CUstream stream);

  // Records a prefetch by another driver call (cuMemPrefetchBatchAsync). Ignores ranges outside of blocks.
  void prefetched(CUdeviceptr address, uint64_t size, CUmemLocation location);

  // For a released block. Unless the memory is `gone`, undoes the driver's advice for the next block there.
  void forget(uint64_t begin, uint64_t end, bool gone = false);

  // After a restart has loaded the contents: repeats all advice and prefetches, in the devices' contexts.
  Status tell_again(const std::function<CUcontext(int device)>& context_of);

 private:
  using Ranges = std::map<uint64_t, AdviceRange*>;  // by begin; pages without advice are in none
  template <class Change>
  CUresult change(uint64_t begin, uint64_t end, Change change);
  void split(uint64_t at);
  AdviceRange* make(uint64_t begin, uint64_t end);
  bool is_one_block(uint64_t address, uint64_t size) const;

  const Driver& driver_;
  Blocks& blocks_;
  Ranges ranges_;
};

}  // namespace cropdl::memory
