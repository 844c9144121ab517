// Device memory at addresses that a restart gives back: one reservation at a fixed address, a slice of it for
// each device, into which memory is mapped in chunks (cuMemCreate, cuMemMap, cuMemSetAccess). Small blocks
// are packed, each in one chunk; large ones have chunks of their own. What is kept of it in the image is in
// state.h; chunks are made again at a restart, at the same addresses.
//
// CUDA's rules hold: blocks begin at multiples of 512 bytes (of 2 MiB if they are larger than 1 MiB), never
// overlap, have each a number that is never used twice; what the driver refuses (out of memory, devices that
// are not there) is refused with its word. Contents of a fresh block are unspecified, as cudaMalloc's are.
//
// LH, LH FS base, any thread. Calls of the driver are made outside of captures.
#pragma once

#include <array>
#include <list>
#include <map>

#include "base/result.h"
#include "gpu_state/memory/blocks.h"
#include "gpu_state/memory/driver.h"
#include "gpu_state/memory/ranges.h"

namespace cropdl::memory {

class Arena {
 public:
  // Both outlive it.
  Arena(const Driver& driver, Blocks& blocks) : driver_(driver), blocks_(blocks) {}

  // Takes the addresses for devices 0 to devices - 1: as early as can be, and before restore(). The error is
  // one line for people.
  Status reserve(int devices);
  // After reserve(), in a restarted process: maps the memory of all chunks that hold blocks. Contents are
  // unspecified; the others' memory is not taken.
  Status restore();

  // CUDA_ERROR_INVALID_VALUE: size 0. Else as cuMemCreate says.
  CUresult allocate(int device, uint64_t size, BlockKind kind, Block** block);
  // Of this arena. Whoever calls has waited for all work that may still use it.
  void release(Block* block);

  // Whether `peer` may access what `device` has, now and what comes: it has enabled that (State::enabled);
  // and what follows from that and from the pools' (Pool::peers), when one of those has changed.
  // After an error it is as it was.
  CUresult allow_peer(int device, int peer, bool allowed);
  bool is_allowed(int device, int peer) const;
  CUresult open_to_peers(int device);

  // Bytes of the device's that the arena has taken, and those of them that are in no block.
  uint64_t mapped(int device) const;
  uint64_t unused(int device) const;
  // Gives back all of that which can be: empty chunks.
  void trim(int device);

 private:
  struct ChunkUse {
    Chunk* record;
    uint64_t used;  // bytes of blocks
  };
  struct Slice {
    Ranges addresses;                   // nothing is mapped there
    Ranges small;                       // within chunks for small blocks
    std::map<uint64_t, ChunkUse> uses;  // by begin
    std::list<Chunk*> idle;             // whole ones without a block, the oldest first
    uint64_t idle_bytes = 0;
    Chunk* spare = nullptr;  // a chunk for small blocks that has none
    uint64_t small_mapped = 0, mapped = 0, used = 0;
    uint64_t memory = 0;  // of the device
    bool rdma = false;
  };

  CUresult map(Slice& slice, int device, uint64_t begin, uint64_t size);
  CUresult add_chunk(Slice& slice, int device, uint64_t size, bool whole, Chunk** made);
  void drop_chunk(Slice& slice, Chunk* chunk);
  CUresult set_access(uint64_t begin, uint64_t size, uint32_t devices, CUmemAccess_flags flags);
  CUresult take_small(Slice& slice, int device, uint64_t room, uint64_t* begin);
  CUresult take_whole(Slice& slice, int device, uint64_t* room, uint64_t* begin);
  void give_back(Slice& slice, uint64_t begin, uint64_t room);
  ChunkUse& chunk_of(Slice& slice, uint64_t address);
  static uint64_t most_idle(const Slice& slice);
  void shrink_idle(Slice& slice);
  uint64_t slice_begin(int device) const { return kArenaBegin + static_cast<uint64_t>(device) * kArenaSlice; }

  const Driver& driver_;
  Blocks& blocks_;
  std::array<Slice, kDevices> slices_;
};

}  // namespace cropdl::memory
