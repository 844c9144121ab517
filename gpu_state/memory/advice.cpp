#include "gpu_state/memory/advice.h"

#include <iterator>

#include "base/page.h"

namespace cropdl::memory {
namespace {

constexpr int32_t kNone = CU_DEVICE_INVALID, kHost = CU_DEVICE_CPU;

struct Place {
  int32_t device, node;
};

Place place_of(CUmemLocation location) {
  if (location.type == CU_MEM_LOCATION_TYPE_DEVICE) return {location.id, -1};
  return {kHost, location.type == CU_MEM_LOCATION_TYPE_HOST_NUMA ? location.id : -1};
}

CUmemLocation location_of(Place place) {
  if (place.device != kHost) return {CU_MEM_LOCATION_TYPE_DEVICE, {place.device}};
  if (place.node >= 0) return {CU_MEM_LOCATION_TYPE_HOST_NUMA, {place.node}};
  return {CU_MEM_LOCATION_TYPE_HOST, {0}};
}

void apply(Advice& one, CUmem_advise advice, Place place) {
  switch (advice) {
    case CU_MEM_ADVISE_SET_READ_MOSTLY:
    case CU_MEM_ADVISE_UNSET_READ_MOSTLY:
      one.read_mostly = advice == CU_MEM_ADVISE_SET_READ_MOSTLY;
      break;
    case CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION:
      place = {kNone, -1};
      [[fallthrough]];
    case CU_MEM_ADVISE_SET_PREFERRED_LOCATION:
      one.preferred = place.device;
      one.preferred_node = place.node;
      break;
    case CU_MEM_ADVISE_SET_ACCESSED_BY:
    case CU_MEM_ADVISE_UNSET_ACCESSED_BY: {
      const bool set = advice == CU_MEM_ADVISE_SET_ACCESSED_BY;
      if (place.device == kHost) {
        one.accessed_by_host = set;
      } else {
        const uint32_t bit = 1u << (place.device & 31);
        one.accessed_by = set ? one.accessed_by | bit : one.accessed_by & ~bit;
      }
      break;
    }
    default:
      break;
  }
}

// Gives the driver each advice of the range, or undoes it.
CUresult tell(const Driver& driver, const AdviceRange& range, bool set) {
  const Advice& its = range.advice;
  CUresult error = CUDA_SUCCESS;
  const auto give = [&](CUmem_advise yes, CUmem_advise no, Place place) {
    if (!error)
      error = driver.cuMemAdvise_v2(range.begin, range.end - range.begin, set ? yes : no, location_of(place));
  };
  const auto accessed_by = [&](int device) {
    give(CU_MEM_ADVISE_SET_ACCESSED_BY, CU_MEM_ADVISE_UNSET_ACCESSED_BY, {device, -1});
  };
  if (its.read_mostly) give(CU_MEM_ADVISE_SET_READ_MOSTLY, CU_MEM_ADVISE_UNSET_READ_MOSTLY, {kHost, -1});
  if (its.preferred != kNone)
    give(CU_MEM_ADVISE_SET_PREFERRED_LOCATION, CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION,
         {its.preferred, its.preferred_node});
  for (int device = 0; device < 32; ++device)
    if (its.accessed_by >> device & 1) accessed_by(device);
  if (its.accessed_by_host) accessed_by(kHost);
  return error;
}

}  // namespace

Advised::Advised(const Driver& driver, Blocks& blocks) : driver_(driver), blocks_(blocks) {
  blocks_.state().advice.each([&](AdviceRange* one) { ranges_.emplace(one->begin, one); });
}

bool Advised::is_one_block(uint64_t address, uint64_t size) const {
  const Block* block = blocks_.around(address);
  return block && block->kind == BlockKind::kManaged && !block->freed && size &&
         address - block->begin < block->size && size <= block->size - (address - block->begin);
}

AdviceRange* Advised::make(uint64_t begin, uint64_t end) {
  AdviceRange* made = blocks_.state().advice.make();
  if (!made) return nullptr;
  made->begin = begin;
  made->end = end;
  ranges_.emplace(begin, made);
  return made;
}

// Splits the range that extends over the address, so that none is on both sides of it.
void Advised::split(uint64_t at) {
  auto next = ranges_.lower_bound(at);
  if (next == ranges_.begin()) return;
  AdviceRange* before = std::prev(next)->second;
  if (before->end <= at) return;
  AdviceRange* behind = make(at, before->end);
  if (!behind) return;  // the heap is full: the range stays whole
  behind->advice = before->advice;
  before->end = at;
}

template <class Change>
CUresult Advised::change(uint64_t begin, uint64_t end, Change change) {
  begin = page_down(begin);
  end = page_up(end);
  split(begin);
  split(end);
  for (uint64_t at = begin; at < end;) {  // makes ranges for pages that have none yet
    const auto next = ranges_.lower_bound(at);
    const uint64_t to = next == ranges_.end() ? end : std::min(end, next->first);
    if (at < to && !make(at, to)) return CUDA_ERROR_OUT_OF_MEMORY;
    at = at < to ? to : next->second->end;
  }
  for (auto one = ranges_.lower_bound(begin); one != ranges_.end() && one->first < end; ++one)
    change(one->second->advice);
  // Drops ranges without advice. Merges equal neighbours, but not over two blocks: each is released alone.
  auto one = ranges_.lower_bound(begin);
  if (one != ranges_.begin()) --one;
  while (one != ranges_.end() && one->first <= end) {
    AdviceRange* here = one->second;
    AdviceRange* before = one == ranges_.begin() ? nullptr : std::prev(one)->second;
    const bool joined =
        before && before->end == here->begin && before->advice == here->advice && !blocks_.at(here->begin);
    if (!joined && here->advice != Advice()) {
      ++one;
      continue;
    }
    if (joined) before->end = here->end;
    one = ranges_.erase(one);
    blocks_.state().advice.drop(here);
  }
  return CUDA_SUCCESS;
}

CUresult Advised::advise(CUdeviceptr address, uint64_t size, CUmem_advise advice, CUmemLocation location) {
  std::lock_guard lock(blocks_.lock());
  if (!is_one_block(address, size)) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult error = driver_.cuMemAdvise_v2(address, size, advice, location)) return error;
  return change(address, address + size, [&](Advice& one) { apply(one, advice, place_of(location)); });
}

CUresult Advised::prefetch(CUdeviceptr address, uint64_t size, CUmemLocation location, unsigned flags,
                           CUstream stream) {
  std::lock_guard lock(blocks_.lock());
  if (!is_one_block(address, size)) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult error = driver_.cuMemPrefetchAsync_v2(address, size, location, flags, stream))
    return error;
  prefetched(address, size, location);
  return CUDA_SUCCESS;
}

void Advised::prefetched(CUdeviceptr address, uint64_t size, CUmemLocation location) {
  std::lock_guard lock(blocks_.lock());
  if (!is_one_block(address, size)) return;
  (void)change(address, address + size, [&](Advice& one) {
    one.prefetched = place_of(location).device;
    one.prefetched_node = place_of(location).node;
  });
}

void Advised::forget(uint64_t begin, uint64_t end, bool gone) {
  std::lock_guard lock(blocks_.lock());
  split(begin);
  split(end);
  auto first = ranges_.lower_bound(begin);
  if (first == ranges_.end() || first->first >= end) return;
  for (auto one = first; !gone && one != ranges_.end() && one->first < end; ++one)
    (void)tell(driver_, *one->second, false);
  (void)change(begin, end, [](Advice& one) { one = {}; });
}

Status Advised::tell_again(const std::function<CUcontext(int)>& context_of) {
  std::lock_guard lock(blocks_.lock());
  const OutsideOfCaptures outside(driver_);
  for (const auto& [begin, range] : ranges_) {
    const Block* block = blocks_.around(begin);
    if (!block) continue;
    const InContext in(driver_, context_of(block->device));
    CUresult error = in.result();
    if (!error) error = tell(driver_, *range, true);
    if (const Advice& its = range->advice; !error && its.prefetched != kNone)
      error = driver_.cuMemPrefetchAsync_v2(
          begin, range->end - begin, location_of({its.prefetched, its.prefetched_node}), 0, CU_STREAM_LEGACY);
    if (error)
      return driver_.checked(error, "what the program advised about its managed memory cannot be told again");
  }
  return {};
}

}  // namespace cropdl::memory
