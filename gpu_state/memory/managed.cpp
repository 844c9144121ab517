#include "gpu_state/memory/managed.h"

#include <algorithm>
#include <iterator>
#include <vector>

#include "base/format.h"
#include "gpu_state/memory/steering.h"

namespace cropdl::memory {
namespace {

// Large: the driver maps it separately, from its first byte. Untouched memory costs nothing.
constexpr uint64_t kRegion = uint64_t{64} << 20;
constexpr uint64_t kPacked = kRegion / 2;  // larger blocks get their own regions
// Between regions: the driver may map more than requested and unmap the excess.
constexpr uint64_t kGap = uint64_t{64} << 20;

bool is_steered(const ManagedRegion& region) {
  return region.begin >= kManagedBegin && region.begin + region.size <= kManagedEnd;
}

}  // namespace

Managed::Managed(const Driver& driver, Blocks& blocks, Advised& advised)
    : driver_(driver), blocks_(blocks), advised_(advised) {
  addresses_.add(kManagedBegin, kManagedEnd);
}

// Takes the region's addresses and the gap behind it. False: they are not all free.
bool Managed::reserve_around(const ManagedRegion& region) {
  const uint64_t end = region.begin + region.size + kGap;
  if (!addresses_.is_free(region.begin, end)) return false;
  addresses_.take_at(region.begin, end);
  return true;
}

void Managed::open(ManagedRegion* region, bool reserved) {
  uses_[region->begin] = {region, 0, reserved};
  of(region).free.add(region->begin, region->begin + region->size, region->begin,
                      region->begin + region->size);
}

Status Managed::restore(const std::function<CUcontext(int)>& context_of) {
  std::lock_guard lock(blocks_.lock());
  const OutsideOfCaptures outside(driver_);
  std::map<uint64_t, RegionUse> saved;
  blocks_.state().managed.each([&](ManagedRegion* one) { saved[one->begin] = {one}; });
  blocks_.each([&](Block* one) {
    if (one->kind == BlockKind::kManaged) std::prev(saved.upper_bound(one->begin))->second.used += one->room;
  });
  for (const auto& known : saved) {
    const uint64_t begin = known.first;
    const auto& use = known.second;
    if (use.used == 0) {
      blocks_.state().managed.drop(use.record);
      continue;
    }
    const uint64_t size = use.record->size;
    CUdeviceptr got = 0;
    const InContext in(driver_, context_of(use.record->device));
    CUresult error = in.result();
    if (!error)
      error = with_patience([&] {
        const Steering steering(begin, size);
        return driver_.cuMemAllocManaged(&got, size, CU_MEM_ATTACH_GLOBAL);
      });
    if (error || got != begin) {
      if (!error) driver_.cuMemFree_v2(got);
      return Error{
          "CUDA: the program's managed memory at {:#x} ({} MiB) cannot be had there again ({}); "
          "restart it with the driver that it ran with",
          begin, size >> 20, error ? driver_.name_of(error) : "the driver puts it elsewhere"};
    }
    open(use.record, reserve_around(*use.record));
    uses_[begin].used = use.used;
    blocks_.each_within(begin, begin + size,
                        [&](Block* one) { of(use.record).free.take_at(one->begin, one->begin + one->room); });
  }
  return {};
}

CUresult Managed::grow(uint64_t size, int device, ManagedRegion** made) {
  const OutsideOfCaptures outside(driver_);
  const uint64_t wanted = addresses_.take(size + kGap);
  CUdeviceptr got = 0;
  CUresult error;
  {
    const Steering steering(wanted, size);
    error = driver_.cuMemAllocManaged(&got, size, CU_MEM_ATTACH_GLOBAL);
  }
  ManagedRegion* region = error ? nullptr : blocks_.state().managed.make();
  if (!error && !region) {
    driver_.cuMemFree_v2(got);
    error = CUDA_ERROR_OUT_OF_MEMORY;
  }
  if (wanted && (error || got != wanted)) addresses_.add(wanted, wanted + size + kGap);
  if (error) return error;
  region->begin = got;
  region->size = size;
  region->device = device;
  // The driver may choose other addresses that are among those for regions.
  open(region, got == wanted || reserve_around(*region));
  *made = region;
  return CUDA_SUCCESS;
}

// `gone`: the memory ended with its context.
void Managed::drop(ManagedRegion* region, bool gone) {
  const OutsideOfCaptures outside(driver_);
  const uint64_t begin = region->begin, end = begin + region->size;
  if (!gone) driver_.cuMemFree_v2(begin);
  of(region).free.take_at(begin, end);
  const bool reserved = uses_[begin].reserved;
  uses_.erase(begin);
  blocks_.state().managed.drop(region);
  if (reserved) addresses_.add(begin, end + kGap);
}

Managed::RegionUse& Managed::region_of(uint64_t address) {
  return std::prev(uses_.upper_bound(address))->second;
}

CUresult Managed::allocate(uint64_t size, unsigned flags, int device, Block** block) {
  std::lock_guard lock(blocks_.lock());
  if (size == 0) return CUDA_ERROR_INVALID_VALUE;
  if (device < 0 || device >= kDevices) return CUDA_ERROR_INVALID_DEVICE;
  if (size > (kManagedEnd - kManagedBegin) / 2) return CUDA_ERROR_OUT_OF_MEMORY;
  uint64_t room = rounded_up(size, kHostPage);
  const bool packed = room <= kPacked;
  if (!packed) room = std::max(rounded_up(size, kGranularity), kRegion);
  OfDevice& its = devices_[device];
  uint64_t begin = packed ? its.free.take(room) : 0;
  if (begin == 0) {
    ManagedRegion* region = nullptr;
    if (const CUresult error = grow(packed ? kRegion : room, device, &region)) return error;
    begin = region->begin;
    its.free.take_at(begin, begin + room);
  }
  *block = blocks_.make(begin, size, room, BlockKind::kManaged, device);
  RegionUse& use = region_of(begin);
  use.used += room;
  if (use.record == its.spare) its.spare = nullptr;
  if (*block) {
    (*block)->flags = flags;
    return CUDA_SUCCESS;
  }
  give_back(begin, begin + room);
  return CUDA_ERROR_OUT_OF_MEMORY;
}

void Managed::release(Block* block) {
  std::lock_guard lock(blocks_.lock());
  const uint64_t begin = block->begin, end = begin + block->room;
  advised_.forget(begin, end);
  blocks_.drop(block);
  give_back(begin, end);
}

// Returns the range to its region. Keeps an empty region if a restart could restore it.
void Managed::give_back(uint64_t begin, uint64_t end) {
  RegionUse& use = region_of(begin);
  ManagedRegion* region = use.record;
  use.used -= end - begin;
  OfDevice& its = of(region);
  its.free.add(begin, end, region->begin, region->begin + region->size);
  if (use.used) return;
  if (its.spare || region->size > kRegion || !is_steered(*region))
    drop(region);
  else
    its.spare = region;
}

std::string Managed::refusal() const {
  std::lock_guard lock(blocks_.lock());
  for (const auto& [begin, use] : uses_)
    if (use.used && !is_steered(*use.record))
      return formatted(
          "cudaMallocManaged: the driver put managed memory where it wanted to ({:#x}), and a restart could "
          "not have it there again; use cudaMalloc",
          begin);
  return "";
}

void Managed::forget(int device) {
  std::lock_guard lock(blocks_.lock());
  if (device < 0 || device >= kDevices) return;
  std::vector<ManagedRegion*> regions;
  blocks_.state().managed.each([&](ManagedRegion* one) {
    if (one->device == device) regions.push_back(one);
  });
  for (ManagedRegion* region : regions) {
    const uint64_t begin = region->begin, end = begin + region->size;
    advised_.forget(begin, end, true);
    blocks_.each_within(begin, end, [&](Block* one) {
      of(region).free.add(one->begin, one->begin + one->room, begin, end);
      blocks_.drop(one);
    });
    drop(region, true);
  }
  devices_[device].spare = nullptr;
}

}  // namespace cropdl::memory
