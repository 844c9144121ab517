// What images hold of device memory: records in the persistent heap, reached from one State. Raw addresses of
// device memory, of the program and of other records are true after a restart; handles of the driver's are
// not, and none stands here. Append-only, versioned. LH; under the one lock of blocks.h.
#pragma once

#include <cstdint>

#include "gpu_state/memory/layout.h"
#include "gpu_state/memory/records.h"

namespace cropdl::memory {

constexpr uint32_t kStateVersion = 2;  // 2: regions have devices, own memory an address of its contents

enum class BlockKind : uint32_t {
  kDevice = 1,   // cudaMalloc, cuMemAlloc
  kPool = 2,     // cudaMallocAsync and the like; `pool` says whose
  kManaged = 3,  // cudaMallocManaged
};

// What was handed out. `room` bytes from `begin` are its own.
struct Block {
  RecordHead head;
  uint64_t begin;
  uint64_t size;  // as asked for
  uint64_t room;
  BlockKind kind;
  int32_t device;  // of managed memory: that was current when it was asked for
  uint32_t flags;  // of cuMemAllocManaged
  uint32_t freed;  // cuMemFreeAsync was called, the stream has not come there: no block to the program
  uint64_t pool;   // address of the Pool; 0: none
  uint64_t unused;
  uint64_t id;           // CU_POINTER_ATTRIBUTE_BUFFER_ID: never used twice
  uint32_t sync_memops;  // CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, as it was set
  uint32_t reserved;
};

// Memory of a device, mapped into the arena by one cuMemCreate and cuMemMap.
struct Chunk {
  RecordHead head;
  uint64_t begin, size;  // multiples of kGranularity
  int32_t device;
  uint32_t whole;  // 1: made for one block; 0: small ones are packed in it
};

// Memory that one cuMemAllocManaged gave: it goes with the context that it was made in, the device's primary
// one. All its blocks are that device's.
struct ManagedRegion {
  RecordHead head;
  uint64_t begin, size;
  int32_t device;
  uint32_t reserved;
};

// What a pool of the driver's (cudaMemPool_t) has of the arena: its blocks, and how many bytes.
struct Pool {
  RecordHead head;
  uint64_t key;  // the caller's name of it
  int32_t device;
  uint32_t destroyed;                // goes with its last block
  uint64_t used, used_high;          // bytes of blocks that the program has
  uint64_t reserved, reserved_high;  // ... and of those that it has freed and that wait, or are kept
  uint64_t keep;                     // its release threshold, as last heard
  uint64_t most;                     // cudaMemPoolProps::maxSize; 0: no bound
  uint32_t peers;                    // bit per device that its memory is open to, too (cudaMemPoolSetAccess)
  uint32_t unused;
};

// Advice on pages of managed memory. Devices by their numbers, or as cuda.h has CU_DEVICE_CPU (-1) and
// CU_DEVICE_INVALID (-2): none.
struct AdviceRange {
  RecordHead head;
  uint64_t begin, end;
  uint32_t read_mostly;
  int32_t preferred;
  uint32_t accessed_by;  // bit per device
  uint32_t accessed_by_host;
  int32_t prefetched;
  int32_t preferred_node, prefetched_node;  // NUMA nodes of the host, -1: none in particular
  uint32_t reserved;
};

// A device's variable as the last image has it.
struct SavedVariable {
  RecordHead head;
  uint64_t name;   // address of text in the heap, ended by a zero
  uint64_t begin;  // in the image, from kVariablesBegin
  uint64_t size;
  int32_t device;
  uint32_t reserved;
  uint64_t address;  // on the device, in the process that was saved
};

// What a program reserves, makes and maps itself (cuMemAddressReserve, cuMemCreate, cuMemMap).
struct OwnReservation {
  RecordHead head;
  uint64_t begin, size, alignment;
};

struct OwnPhysical {
  RecordHead head;
  uint64_t word;  // the caller's name of its handle; 0: all of them were released, and it is mapped
  uint64_t size;
  uint32_t references;  // of the program's to the handle
  uint32_t mappings;
  int32_t device;
  uint32_t reserved;
  uint64_t contents;    // where it stands in images, from kOwnContentsBegin
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
  uint32_t devices;  // slices of the arena that are reserved
  uint64_t arena;    // 0: nothing is reserved
  uint64_t last_id;
  uint32_t peers[kDevices];    // [device]: bit per device that may access its chunks, too:
  uint32_t enabled[kDevices];  // ... those that enabled peer access to it, and those of its pools
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

  // In a fresh heap. nullptr: it is full.
  static State* format();
  // "" or why a restored one cannot be used.
  const char* check() const;
};

}  // namespace cropdl::memory
