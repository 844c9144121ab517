// Device memory at addresses that a restart restores: one reservation at a fixed address with a slice for
// each device, into which memory is mapped in chunks (cuMemCreate, cuMemMap, cuMemSetAccess). Small blocks
// are packed into shared chunks, each within one; large blocks have chunks of their own. Images contain the
// records of state.h; a restart makes the chunks again at the same addresses.
// CUDA's rules hold: blocks begin at multiples of 512 bytes (of 2 MiB if larger than 1 MiB), never overlap,
// and have ids that are never reused. The driver's errors are passed on. Contents of a fresh block are
// unspecified, as cudaMalloc's are. LH, LH FS base, any thread. Driver calls are made outside of captures.
#pragma once

#include <list>
#include <map>

#include "base/result.h"
#include "gpu_state/memory/blocks.h"
#include "gpu_state/memory/driver.h"
#include "gpu_state/memory/ranges.h"

namespace cropdl::memory {

class Arena {
 public:
  // Both must outlive it.
  Arena(const Driver& driver, Blocks& blocks) : driver_(driver), blocks_(blocks) {}

  // Reserves the addresses for devices 0 to devices - 1. Call as early as possible, before restore().
  Status reserve(int devices);
  // In a restarted process: maps all chunks that hold blocks, drops the others. Contents are unspecified.
  Status restore();

  // CUDA_ERROR_INVALID_VALUE: size 0. Otherwise as cuMemCreate.
  CUresult allocate(int device, uint64_t size, BlockKind kind, Block** block);
  // `block` is of this arena. The caller has waited for all work that may still use it.
  void release(Block* block);

  // Whether `peer` has enabled access to all memory of `device`, present and future (State::enabled).
  // open_to_peers() applies that and Pool::peers, when these change. An error changes nothing.
  CUresult allow_peer(int device, int peer, bool allowed);
  bool is_allowed(int device, int peer) const;
  CUresult open_to_peers(int device);

  // Bytes of device memory that the arena has taken and that are in no block.
  uint64_t unused(int device) const;
  // Returns empty chunks to the driver.
  void trim(int device);

 private:
  struct ChunkUse {
    Chunk* record;
    uint64_t used;  // bytes of blocks
  };
  struct Slice {
    Ranges addresses;                   // unmapped
    Ranges small;                       // within chunks for small blocks
    std::map<uint64_t, ChunkUse> uses;  // by begin
    std::list<Chunk*> idle;             // empty whole chunks, oldest first
    uint64_t idle_bytes = 0;
    Chunk* spare = nullptr;  // an empty chunk for small blocks
    uint64_t small_mapped = 0, mapped = 0, used = 0;
    uint64_t memory = 0;  // total of the device
    CUmemAllocationProp properties{};
  };

  CUresult map(const Slice& slice, int device, uint64_t begin, uint64_t size);
  static void enter(Slice& slice, const ChunkUse& use);  // its chunk, which is mapped
  CUresult add_chunk(Slice& slice, int device, uint64_t size, bool whole, Chunk** made);
  void drop_chunk(Slice& slice, Chunk* chunk);
  CUresult set_access(uint64_t begin, uint64_t size, uint32_t devices, CUmemAccess_flags flags);
  CUresult take_small(Slice& slice, int device, uint64_t room, uint64_t* begin);
  CUresult take_whole(Slice& slice, int device, uint64_t* room, uint64_t* begin);
  void give_back(Slice& slice, uint64_t begin, uint64_t room);
  ChunkUse& chunk_of(Slice& slice, uint64_t address);
  static uint64_t most_idle(const Slice& slice);
  void shrink_idle(Slice& slice);

  const Driver& driver_;
  Blocks& blocks_;
  Slice slices_[kDevices];
};

}  // namespace cropdl::memory
