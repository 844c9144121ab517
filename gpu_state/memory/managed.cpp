#include "gpu_state/memory/managed.h"

#include <algorithm>
#include <iterator>

#include "base/format.h"
#include "base/page.h"
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

void Managed::open(ManagedRegion* region, bool reserved) {
  uses_[region->begin] = {region, 0, reserved};
  of(region).free.add(region->begin, region->begin + region->size, region->begin,
                      region->begin + region->size);
}

Status Managed::restore(const std::function<CUcontext(int)>& context_of) {
  std::lock_guard lock(blocks_.lock());
  const OutsideOfCaptures outside(driver_);
  std::map<uint64_t, RegionUse> saved;
  blocks_.state().managed.each([&](ManagedRegion* one) {
    if (const uint64_t used = blocks_.used_within(one->begin, one->begin + one->size))
      saved[one->begin] = {one, used};
    else
      blocks_.state().managed.drop(one);
  });
  for (const auto& [at, use] : saved) {
    ManagedRegion* const region = use.record;
    const uint64_t begin = region->begin, size = region->size;
    CUdeviceptr got = 0;
    const InContext in(driver_, context_of(region->device));
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
    open(region, addresses_.take_if_free(begin, begin + size + kGap));
    uses_[begin].used = use.used;
    blocks_.each_within(begin, begin + size,
                        [&](Block* one) { of(region).free.take_at(one->begin, one->begin + one->room); });
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
  open(region, got == wanted || addresses_.take_if_free(got, got + size + kGap));
  *made = region;
  return CUDA_SUCCESS;
}

// The region's memory has ended, and its addresses are not among the device's free ranges.
void Managed::drop(ManagedRegion* region) {
  const uint64_t begin = region->begin, end = begin + region->size;
  const auto use = uses_.extract(begin);
  blocks_.state().managed.drop(region);
  if (use.mapped().reserved) addresses_.add(begin, end + kGap);
}

Managed::RegionUse& Managed::region_of(uint64_t address) {
  return std::prev(uses_.upper_bound(address))->second;
}

CUresult Managed::allocate(uint64_t size, unsigned flags, int device, Block** block) {
  std::lock_guard lock(blocks_.lock());
  if (size == 0) return CUDA_ERROR_INVALID_VALUE;
  if (device < 0 || device >= kDevices) return CUDA_ERROR_INVALID_DEVICE;
  if (size > (kManagedEnd - kManagedBegin) / 2) return CUDA_ERROR_OUT_OF_MEMORY;
  uint64_t room = page_up(size);
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
  if (!its.spare && region->size <= kRegion && is_steered(*region)) {
    its.spare = region;
    return;
  }
  const OutsideOfCaptures outside(driver_);
  driver_.cuMemFree_v2(region->begin);
  its.free.take_at(region->begin, region->begin + region->size);
  drop(region);
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
  blocks_.state().managed.each([&](ManagedRegion* region) {
    if (region->device != device) return;
    const uint64_t begin = region->begin, end = begin + region->size;
    advised_.forget(begin, end, true);
    blocks_.each_within(begin, end, [&](Block* one) { blocks_.drop(one); });
    drop(region);
  });
  devices_[device] = {};
}

}  // namespace cropdl::memory
