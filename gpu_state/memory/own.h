// Virtual memory that the program manages itself (cuMemAddressReserve, cuMemCreate, cuMemMap): a restart
// makes it again from records at the same addresses. Reservations without a requested address get one in
// [kOwnBegin, kOwnEnd). The caller keeps the handles of physical memory. LH, LH FS base, any thread.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/result.h"
#include "gpu_state/memory/blocks.h"
#include "gpu_state/memory/driver.h"
#include "gpu_state/memory/ranges.h"

namespace cropdl::memory {

inline OwnPhysical* physical_of(const OwnMapping& mapping) {
  return reinterpret_cast<OwnPhysical*>(mapping.physical);
}

class Own {
 public:
  Own(const Driver& driver, Blocks& blocks);

  // As the driver's functions, with their results. `real` is the driver's handle.
  CUresult reserve(CUdeviceptr* address, uint64_t size, uint64_t alignment, CUdeviceptr wish,
                   unsigned long long flags);
  CUresult free(CUdeviceptr address, uint64_t size);
  CUresult map(CUdeviceptr address, uint64_t size, uint64_t offset, uint64_t word,
               CUmemGenericAllocationHandle real, unsigned long long flags);
  CUresult unmap(CUdeviceptr address, uint64_t size);
  CUresult set_access(CUdeviceptr address, uint64_t size, const CUmemAccessDesc* access, size_t count);

  // made(): the caller has made physical memory; nullptr: the heap is full. named(): it has got a handle
  // for mapped memory that had none. released(): it has released a reference; whether that was the last.
  OwnPhysical* made(uint64_t word, uint64_t size, const CUmemAllocationProp& properties);
  void named(OwnPhysical* physical, uint64_t word);
  const OwnMapping* mapping_around(CUdeviceptr address) const;
  OwnPhysical* known(uint64_t word) const;
  bool released(uint64_t word);

  // The driver's handle for the program's `word`.
  using RealOf = std::function<CUmemGenericAllocationHandle(uint64_t word)>;
  // For a restart. reserve_again(), early: the reservations. map_again(), once handles are made again: the
  // mappings. give_access_again(), once the contents are loaded: the access rights.
  Status reserve_again();
  Status map_again(const RealOf& real_of);
  Status give_access_again();

  // For saving and loading: maps all physical memory at its own addresses (OwnPhysical::contents),
  // independent of which parts the program has mapped and which devices have access.
  Status map_contents(const RealOf& real_of);
  void unmap_contents();

  // "", or why existing memory cannot be made again: it is host memory, or shared with other processes.
  std::string refusal() const;

 private:
  CUresult map_contents(const OwnPhysical& physical, const RealOf& real_of);
  void drop_if_unused(OwnPhysical* physical);

  const Driver& driver_;
  Blocks& blocks_;
  Ranges addresses_, contents_;
  std::unordered_map<uint64_t, OwnPhysical*> by_word_;
  std::map<uint64_t, OwnMapping*> mappings_;                     // by begin
  std::vector<std::pair<CUdeviceptr, uint64_t>> contents_here_;  // mapped until unmap_contents()
};

}  // namespace cropdl::memory
