// What the program advised about managed memory (cuMemAdvise), and where it had it prefetched: told to the
// driver, kept for ranges of pages, told again at a restart. Not read back from the driver:
// cuMemRangeGetAttribute answers for a range as a whole, and cannot tell pages that differ. LH, LH FS base,
// any thread.
#pragma once

#include <functional>
#include <map>

#include "base/result.h"
#include "gpu_state/memory/blocks.h"
#include "gpu_state/memory/driver.h"

namespace cropdl::memory {

class Advised {
 public:
  // Both outlive it. Indexes what the records have.
  Advised(const Driver& driver, Blocks& blocks);

  // As cuMemAdvise and cuMemPrefetchAsync, whose words they answer with. CUDA_ERROR_INVALID_VALUE: it is not
  // within one block of managed memory.
  CUresult advise(CUdeviceptr address, uint64_t size, CUmem_advise advice, CUmemLocation location);
  CUresult prefetch(CUdeviceptr address, uint64_t size, CUmemLocation location, unsigned flags,
                    CUstream stream);

  // ... was prefetched by another call of the driver's (cuMemPrefetchBatchAsync): what is no block's is
  // nothing to note.
  void prefetched(CUdeviceptr address, uint64_t size, CUmemLocation location);

  // The pages' block goes: the driver's advice too, for the next block there; if the memory is not `gone`.
  void forget(uint64_t begin, uint64_t end, bool gone = false);

  // After a restart, when the contents are there: all of it, in contexts of the blocks' devices.
  Status tell_again(const std::function<CUcontext(int device)>& context_of);

 private:
  using Ranges = std::map<uint64_t, AdviceRange*>;  // by begin; what nobody advised is in none
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
