// The records of device memory that images contain: they are in the persistent heap, reached from one State.
// Raw addresses of device memory, of the program and of other records stay valid over a restart. Driver
// handles do not, and no record contains any. Append-only, versioned. LH; under the lock of blocks.h.
#pragma once

#include <cstdint>

#include "gpu_state/memory/layout.h"
#include "gpu_state/memory/records.h"

namespace cropdl::memory {

constexpr uint32_t kStateVersion = 2;  // 2: adds ManagedRegion::device and OwnPhysical::contents

enum class BlockKind : uint32_t {
  kDevice = 1,   // cudaMalloc, cuMemAlloc
  kPool = 2,     // cudaMallocAsync and the like; `pool` is its pool
  kManaged = 3,  // cudaMallocManaged
};

// An allocation. `room` bytes from `begin` belong to it.
struct Block {
  RecordHead head;
  uint64_t begin;
  uint64_t size;  // as requested
  uint64_t room;
  BlockKind kind;
  int32_t device;  // managed memory: the device that was current at the allocation
  uint32_t flags;  // of cuMemAllocManaged
  uint32_t freed;  // 1: freed by cuMemFreeAsync or kept by a pool; the program has it no more
  uint64_t pool;   // address of the Pool; 0: none
  uint64_t unused;
  uint64_t id;           // CU_POINTER_ATTRIBUTE_BUFFER_ID: never reused
  uint32_t sync_memops;  // CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, as set by the program
  uint32_t reserved;
};

// Device memory that one cuMemCreate and cuMemMap put into the arena.
struct Chunk {
  RecordHead head;
  uint64_t begin, size;  // multiples of kGranularity
  int32_t device;
  uint32_t whole;  // 1: holds one block; 0: small blocks are packed in it
};

// Memory from one cuMemAllocManaged, for blocks of one device. It ends with the device's primary context.
struct ManagedRegion {
  RecordHead head;
  uint64_t begin, size;
  int32_t device;
  uint32_t reserved;
};

// A driver pool's (cudaMemPool_t) share of the arena.
struct Pool {
  RecordHead head;
  uint64_t key;  // identifies the pool to the caller
  int32_t device;
  uint32_t destroyed;                // 1: dropped with its last block
  uint64_t used, used_high;          // bytes of blocks that the program has
  uint64_t reserved, reserved_high;  // bytes of those, of freed blocks that wait, and of kept blocks
  uint64_t keep;                     // release threshold, as last seen
  uint64_t most;                     // cudaMemPoolProps::maxSize; 0: no bound
  uint32_t peers;                    // bit per device that has access, besides its own (cudaMemPoolSetAccess)
  uint32_t unused;
};

// Advice on pages of managed memory. Devices: numbers, CU_DEVICE_CPU (-1), CU_DEVICE_INVALID (-2) for none.
struct Advice {
  uint32_t read_mostly = 0;
  int32_t preferred = -2;
  uint32_t accessed_by = 0;  // bit per device
  uint32_t accessed_by_host = 0;
  int32_t prefetched = -2;
  int32_t preferred_node = -1, prefetched_node = -1;  // NUMA nodes of the host; -1: unspecified
  bool operator==(const Advice&) const = default;
};
struct AdviceRange {
  RecordHead head;
  uint64_t begin, end;
  Advice advice;
  uint32_t reserved;
};
static_assert(sizeof(Advice) == 28 && sizeof(AdviceRange) == 64);  // images hold them

// A device variable in the last image.
struct SavedVariable {
  RecordHead head;
  uint64_t name;   // address of a zero-terminated string in the heap
  uint64_t begin;  // in the image, from kVariablesBegin
  uint64_t size;
  int32_t device;
  uint32_t reserved;
  uint64_t address;  // on the device, in the saved process
};

// Memory that the program manages itself (cuMemAddressReserve, cuMemCreate, cuMemMap).
struct OwnReservation {
  RecordHead head;
  uint64_t begin, size, alignment;
};

struct OwnPhysical {
  RecordHead head;
  uint64_t word;  // the caller's handle; 0: all references are released, and it is still mapped
  uint64_t size;
  uint32_t references;  // the program's references to the handle
  uint32_t mappings;
  int32_t device;
  uint32_t reserved;
  uint64_t contents;    // its address in images, from kOwnContentsBegin
  char properties[64];  // CUmemAllocationProp
};

struct OwnMapping {
  RecordHead head;
  uint64_t begin, size, offset;
  uint64_t physical;         // address of an OwnPhysical
  uint8_t access[kDevices];  // CUmemAccess_flags
};

struct State {
  uint32_t version;
  uint32_t devices;  // reserved slices of the arena
  uint64_t arena;    // 0: nothing is reserved
  uint64_t last_id;
  uint32_t peers[kDevices];  // [device]: bit per other device that has access to its chunks:
  // ... the devices that enabled peer access to it; `peers` has those and its pools'
  uint32_t enabled[kDevices];
  Records<Block> blocks;
  Records<Chunk> chunks;
  Records<ManagedRegion> managed;
  Records<Pool> pools;
  Records<AdviceRange> advice;
  Records<SavedVariable> variables;
  Records<OwnReservation> own_reservations;
  Records<OwnPhysical> own_physical;
  Records<OwnMapping> own_mappings;
  uint64_t reserved[16];

  // Makes it in a fresh heap. nullptr: the heap is full.
  static State* format();
  // "" or why a restored State cannot be used.
  const char* check() const;
};

}  // namespace cropdl::memory
