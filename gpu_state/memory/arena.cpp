#include "gpu_state/memory/arena.h"

#include <algorithm>
#include <bit>
#include <iterator>
#include <vector>

#include "base/format.h"

namespace cropdl::memory {
namespace {

// Blocks up to this size are packed; the driver does the same below 1 MiB.
constexpr uint64_t kSmall = uint64_t{1} << 20;
// A new chunk for small blocks is as large as all existing ones together, within these bounds: programs that
// allocate much need few driver calls, others take little memory.
constexpr uint64_t kLeastSmallChunk = kGranularity, kMostSmallChunk = uint64_t{32} << 20;
// The most bytes of empty chunks to keep. Mapping a chunk takes longer than cudaMalloc, and programs that
// allocate and free in a loop must not become slower. Small compared to a device's memory.
constexpr uint64_t kMostIdle = uint64_t{256} << 20;

}  // namespace

Status Arena::reserve(int devices) {
  std::lock_guard lock(blocks_.lock());
  State& state = blocks_.state();
  int wanted = 0;  // devices that have saved blocks; unused ones need not exist here
  blocks_.each([&](const Block* one) { wanted = std::max(wanted, one->device + 1); });
  if (wanted > devices)
    return Error{"CUDA: the program has memory of {} devices, and there are {} here", wanted, devices};
  for (int device = 0; device < devices; ++device) {
    const auto has = [&](CUdevice_attribute what) {
      int value = 0;
      driver_.cuDeviceGetAttribute(&value, what, device);
      return value != 0;
    };
    const bool can_map = has(CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED);
    CUmemAllocationProp properties{};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, {device}};
    properties.allocFlags.gpuDirectRDMACapable =  // as cudaMalloc's memory
        has(CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED);
    // Libraries may pass the memory to other processes, as NCCL does with registered buffers.
    if (has(CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED))
      properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    size_t granularity = 0;
    const CUresult asked =
        driver_.cuMemGetAllocationGranularity(&granularity, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
    if (!can_map || asked != CUDA_SUCCESS || granularity == 0 || kGranularity % granularity != 0)
      return Error{
          "CUDA: the memory of device {} cannot be placed at fixed addresses ({}), so it "
          "could not be saved",
          device,
          !can_map ? "it has no virtual memory management"
          : asked  ? driver_.name_of(asked)
                   : formatted("its granularity is {} bytes", granularity)};
    size_t memory = 0;
    driver_.cuDeviceTotalMem_v2(&memory, device);
    const uint64_t begin = kArenaBegin + static_cast<uint64_t>(device) * kArenaSlice;
    Slice& slice = slices_[device];
    slice.addresses.add(begin, begin + kArenaSlice);
    slice.properties = properties;
    slice.memory = memory;
  }
  const uint64_t size = static_cast<uint64_t>(devices) * kArenaSlice;
  CUdeviceptr got = 0;
  const CUresult reserved =
      devices ? driver_.cuMemAddressReserve(&got, size, kGranularity, kArenaBegin, 0) : CUDA_SUCCESS;
  if (devices && (reserved != CUDA_SUCCESS || got != kArenaBegin)) {
    if (reserved == CUDA_SUCCESS) driver_.cuMemAddressFree(got, size);
    return Error{
        "CUDA: the addresses {:#x} to {:#x}, where device memory has to lie, cannot be had ({}): is "
        "there a limit on addresses (ulimit -v)?",
        kArenaBegin, kArenaBegin + size,
        reserved ? driver_.name_of(reserved) : formatted("the driver gave {:#x}", got)};
  }
  state.arena = kArenaBegin;
  state.devices = static_cast<uint32_t>(devices);
  return {};
}

Status Arena::restore() {
  std::lock_guard lock(blocks_.lock());
  const OutsideOfCaptures outside(driver_);
  State& state = blocks_.state();
  std::map<uint64_t, ChunkUse> uses;
  state.chunks.each([&](Chunk* one) {
    if (const uint64_t used = blocks_.used_within(one->begin, one->begin + one->size))
      uses[one->begin] = {one, used};
    else
      state.chunks.drop(one);
  });
  for (const auto& [begin, use] : uses) {
    const Chunk& chunk = *use.record;
    Slice& slice = slices_[chunk.device];
    slice.addresses.take_at(begin, begin + chunk.size);
    if (const CUresult error =
            with_patience([&] { return map(slice, chunk.device, chunk.begin, chunk.size); })) {
      slice.addresses.add(begin, begin + chunk.size);
      uint64_t wanted = 0;
      for (const auto& [at, other] : uses)
        if (other.record->device == chunk.device) wanted += other.record->size;
      return Error{
          "CUDA: the program had {} MiB of device {}'s memory, of which {} MiB can be had here "
          "({}): is the device another one, or used by others?",
          wanted >> 20, chunk.device, slice.mapped >> 20, driver_.name_of(error)};
    }
    enter(slice, use);
    if (!chunk.whole)
      blocks_.each_within(begin, begin + chunk.size,
                          [&](Block* one) { slice.small.take_at(one->begin, one->begin + one->room); });
  }
  return {};
}

CUresult Arena::set_access(uint64_t begin, uint64_t size, uint32_t devices, CUmemAccess_flags flags) {
  std::vector<CUmemAccessDesc> access;
  for (int device = 0; device < kDevices; ++device)
    if (devices >> device & 1) access.push_back({{CU_MEM_LOCATION_TYPE_DEVICE, {device}}, flags});
  return driver_.cuMemSetAccess(begin, size, access.data(), access.size());
}

// Releases the handle: the memory exists as long as it is mapped.
CUresult Arena::map(const Slice& slice, int device, uint64_t begin, uint64_t size) {
  CUmemGenericAllocationHandle handle = 0;
  if (const CUresult error = driver_.cuMemCreate(&handle, size, &slice.properties, 0)) return error;
  CUresult error = driver_.cuMemMap(begin, size, 0, handle, 0);
  if (error == CUDA_SUCCESS) {
    const uint32_t all = blocks_.state().peers[device] | 1u << device;
    error = set_access(begin, size, all, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    if (error != CUDA_SUCCESS) driver_.cuMemUnmap(begin, size);
  }
  driver_.cuMemRelease(handle);
  return error;
}

void Arena::enter(Slice& slice, const ChunkUse& use) {
  const Chunk& chunk = *use.record;
  slice.uses[chunk.begin] = use;
  slice.mapped += chunk.size;
  slice.used += use.used;
  if (chunk.whole) return;
  slice.small_mapped += chunk.size;
  slice.small.add(chunk.begin, chunk.begin + chunk.size, chunk.begin, chunk.begin + chunk.size);
}

CUresult Arena::add_chunk(Slice& slice, int device, uint64_t size, bool whole, Chunk** made) {
  const OutsideOfCaptures outside(driver_);
  const uint64_t begin = slice.addresses.take(size);
  if (begin == 0) return CUDA_ERROR_OUT_OF_MEMORY;
  Chunk* chunk = blocks_.state().chunks.make();
  const CUresult error = chunk ? map(slice, device, begin, size) : CUDA_ERROR_OUT_OF_MEMORY;
  if (error != CUDA_SUCCESS) {
    if (chunk) blocks_.state().chunks.drop(chunk);
    slice.addresses.add(begin, begin + size);
    return error;
  }
  chunk->begin = begin;
  chunk->size = size;
  chunk->device = device;
  chunk->whole = whole;
  enter(slice, {chunk, 0});
  shrink_idle(slice);
  *made = chunk;
  return CUDA_SUCCESS;
}

void Arena::drop_chunk(Slice& slice, Chunk* chunk) {
  const OutsideOfCaptures outside(driver_);
  driver_.cuMemUnmap(chunk->begin, chunk->size);
  slice.addresses.add(chunk->begin, chunk->begin + chunk->size);
  slice.uses.erase(chunk->begin);
  slice.mapped -= chunk->size;
  if (!chunk->whole) {
    slice.small.take_at(chunk->begin, chunk->begin + chunk->size);
    slice.small_mapped -= chunk->size;
  }
  blocks_.state().chunks.drop(chunk);
}

Arena::ChunkUse& Arena::chunk_of(Slice& slice, uint64_t address) {
  return std::prev(slice.uses.upper_bound(address))->second;
}

CUresult Arena::take_small(Slice& slice, int device, uint64_t room, uint64_t* begin) {
  *begin = slice.small.take(room);
  if (*begin == 0) {
    Chunk* chunk = nullptr;
    const uint64_t size = std::clamp(std::bit_floor(slice.small_mapped), kLeastSmallChunk, kMostSmallChunk);
    CUresult error = add_chunk(slice, device, size, false, &chunk);
    if (error == CUDA_ERROR_OUT_OF_MEMORY) {
      trim(device);
      error = add_chunk(slice, device, kLeastSmallChunk, false, &chunk);
    }
    if (error != CUDA_SUCCESS) return error;
    *begin = slice.small.take(room);
  }
  ChunkUse& use = chunk_of(slice, *begin);
  if (use.record == slice.spare) slice.spare = nullptr;
  use.used += room;
  return CUDA_SUCCESS;
}

CUresult Arena::take_whole(Slice& slice, int device, uint64_t* room, uint64_t* begin) {
  const uint64_t size = rounded_up(*room, kGranularity);
  auto best = slice.idle.end();
  for (auto one = slice.idle.begin(); one != slice.idle.end(); ++one)
    if ((*one)->size >= size && (*one)->size <= size + size / 8 &&
        (best == slice.idle.end() || (*one)->size < (*best)->size))
      best = one;
  Chunk* chunk = nullptr;
  if (best != slice.idle.end()) {
    chunk = *best;
    slice.idle.erase(best);
    slice.idle_bytes -= chunk->size;
  } else {
    CUresult error = add_chunk(slice, device, size, true, &chunk);
    if (error == CUDA_ERROR_OUT_OF_MEMORY && (slice.idle_bytes || slice.spare)) {
      trim(device);
      error = add_chunk(slice, device, size, true, &chunk);
    }
    if (error != CUDA_SUCCESS) return error;
  }
  *begin = chunk->begin;
  *room = slice.uses[chunk->begin].used = chunk->size;
  return CUDA_SUCCESS;
}

CUresult Arena::allocate(int device, uint64_t size, BlockKind kind, Block** block) {
  std::lock_guard lock(blocks_.lock());
  if (device < 0 || static_cast<uint32_t>(device) >= blocks_.state().devices)
    return CUDA_ERROR_INVALID_DEVICE;
  if (size == 0) return CUDA_ERROR_INVALID_VALUE;
  if (size > kArenaSlice) return CUDA_ERROR_OUT_OF_MEMORY;
  Slice& slice = slices_[device];
  uint64_t room = rounded_up(size, kBlockUnit), begin = 0;
  const CUresult error =
      room <= kSmall ? take_small(slice, device, room, &begin) : take_whole(slice, device, &room, &begin);
  if (error != CUDA_SUCCESS) return error;
  slice.used += room;
  *block = blocks_.make(begin, size, room, kind, device);
  if (*block) return CUDA_SUCCESS;
  give_back(slice, begin, room);
  return CUDA_ERROR_OUT_OF_MEMORY;
}

void Arena::release(Block* block) {
  std::lock_guard lock(blocks_.lock());
  Slice& slice = slices_[block->device];
  const uint64_t begin = block->begin, room = block->room;
  blocks_.drop(block);
  give_back(slice, begin, room);
}

// At most a quarter of what remains: NVIDIA's libraries allocate from the driver, not from chunks kept here.
uint64_t Arena::most_idle(const Slice& slice) {
  const uint64_t left = slice.memory > slice.mapped ? slice.memory - slice.mapped : 0;
  return std::min(kMostIdle, left / 4);
}

void Arena::shrink_idle(Slice& slice) {
  while (!slice.idle.empty() && slice.idle_bytes > most_idle(slice)) {
    Chunk* oldest = slice.idle.front();
    slice.idle.pop_front();
    slice.idle_bytes -= oldest->size;
    drop_chunk(slice, oldest);
  }
}

void Arena::give_back(Slice& slice, uint64_t begin, uint64_t room) {
  slice.used -= room;
  ChunkUse& use = chunk_of(slice, begin);
  Chunk* chunk = use.record;
  use.used -= room;
  if (chunk->whole) {
    if (chunk->size > most_idle(slice)) return drop_chunk(slice, chunk);
    slice.idle.push_back(chunk);
    slice.idle_bytes += chunk->size;
    return shrink_idle(slice);
  }
  slice.small.add(begin, begin + room, chunk->begin, chunk->begin + chunk->size);
  if (use.used) return;
  if (slice.spare) drop_chunk(slice, slice.spare);
  slice.spare = chunk;
}

void Arena::trim(int device) {
  std::lock_guard lock(blocks_.lock());
  Slice& slice = slices_[device];
  for (Chunk* chunk : slice.idle) drop_chunk(slice, chunk);
  slice.idle.clear();
  slice.idle_bytes = 0;
  if (slice.spare) drop_chunk(slice, slice.spare);
  slice.spare = nullptr;
}

CUresult Arena::allow_peer(int device, int peer, bool allowed) {
  std::lock_guard lock(blocks_.lock());
  const auto devices = static_cast<int>(blocks_.state().devices);
  if (device < 0 || device >= devices || peer < 0 || peer >= devices || peer == device)
    return CUDA_ERROR_INVALID_DEVICE;
  uint32_t& enabled = blocks_.state().enabled[device];
  const uint32_t before = enabled;
  enabled = allowed ? enabled | 1u << peer : enabled & ~(1u << peer);
  const CUresult error = open_to_peers(device);
  if (error) enabled = before;
  return error;
}

bool Arena::is_allowed(int device, int peer) const {
  std::lock_guard lock(blocks_.lock());
  return device >= 0 && device < kDevices && peer >= 0 && peer < kDevices &&
         (blocks_.state().enabled[device] >> peer & 1) != 0;
}

CUresult Arena::open_to_peers(int device) {
  std::lock_guard lock(blocks_.lock());
  const OutsideOfCaptures outside(driver_);
  State& state = blocks_.state();
  if (device < 0 || static_cast<uint32_t>(device) >= state.devices) return CUDA_ERROR_INVALID_DEVICE;
  uint32_t peers = state.enabled[device];
  state.pools.each([&](const Pool* one) {
    if (one->device == device) peers |= one->peers;
  });
  const uint32_t opened = peers & ~state.peers[device], closed = state.peers[device] & ~peers;
  const auto change = [&](const ChunkUse& use, uint32_t devices, CUmemAccess_flags flags) {
    return devices ? set_access(use.record->begin, use.record->size, devices, flags) : CUDA_SUCCESS;
  };
  const auto& uses = slices_[device].uses;
  for (auto one = uses.begin(); one != uses.end(); ++one) {
    CUresult error = change(one->second, opened, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    if (!error) error = change(one->second, closed, CU_MEM_ACCESS_FLAGS_PROT_NONE);
    if (!error) continue;
    for (auto done = uses.begin(); done != std::next(one); ++done) {  // restore the previous access
      (void)change(done->second, opened, CU_MEM_ACCESS_FLAGS_PROT_NONE);
      (void)change(done->second, closed, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    }
    return error;
  }
  state.peers[device] = peers;
  return CUDA_SUCCESS;
}

uint64_t Arena::unused(int device) const {
  std::lock_guard lock(blocks_.lock());
  const Slice& slice = slices_[device];
  return slice.mapped - slice.used;
}

}  // namespace cropdl::memory
