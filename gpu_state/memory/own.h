// What a program reserves, makes and maps itself, at addresses that a restart gives back: reservations
// without a wish lie in a part of the address space of their own. Kept in records, made again from them;
// handles of physical memory are the caller's to keep. LH, LH FS base, any thread.
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

  // As the driver's functions, whose words they answer with. Of those that take a handle, `real` is the
  // driver's.
  CUresult reserve(CUdeviceptr* address, uint64_t size, uint64_t alignment, CUdeviceptr wish,
                   unsigned long long flags);
  CUresult free(CUdeviceptr address, uint64_t size);
  CUresult map(CUdeviceptr address, uint64_t size, uint64_t offset, uint64_t word,
               CUmemGenericAllocationHandle real, unsigned long long flags);
  CUresult unmap(CUdeviceptr address, uint64_t size);
  CUresult set_access(CUdeviceptr address, uint64_t size, const CUmemAccessDesc* access, size_t count);

  // The caller has made physical memory (nullptr: the heap is full); has got a handle again of what is mapped
  // at an address, and names it if it had none any more; has released one (whether it was the last).
  OwnPhysical* made(uint64_t word, uint64_t size, const CUmemAllocationProp& properties);
  void named(OwnPhysical* physical, uint64_t word);
  const OwnMapping* mapping_around(CUdeviceptr address) const;
  OwnPhysical* mapped_at(CUdeviceptr address) const;
  OwnPhysical* known(uint64_t word) const;
  bool released(uint64_t word);

  // The driver's handle by the program's word.
  using RealOf = std::function<CUmemGenericAllocationHandle(uint64_t word)>;
  // A restart. First, early: the addresses. Then, when handles are there again: mappings. Last, when the
  // contents are there: access as it was.
  Status reserve_again();
  Status map_again(const RealOf& real_of);
  Status give_access_again();

  // Around saving and loading: all physical memory, whatever of it the program has mapped and to whomever
  // that is open, at addresses of its own (OwnPhysical::contents).
  Status map_contents(const RealOf& real_of);
  void unmap_contents();

  // "", or why what lives cannot be made again: memory of the host, or for other processes.
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
