#include "gpu_state/memory/own.h"

#include <algorithm>
#include <cstring>
#include <iterator>

#include "base/format.h"

namespace cropdl::memory {
namespace {

CUmemAccessDesc access_of(int device, unsigned flags) {
  return {{CU_MEM_LOCATION_TYPE_DEVICE, {device}}, static_cast<CUmemAccess_flags>(flags)};
}

CUmemAllocationProp properties_of(const OwnPhysical& physical) {
  CUmemAllocationProp properties;
  static_assert(sizeof properties <= sizeof physical.properties);
  std::memcpy(&properties, physical.properties, sizeof properties);
  return properties;
}

// The bytes of its place among contents.
uint64_t room_of(uint64_t size) { return rounded_up(size, kGranularity); }

}  // namespace

Own::Own(const Driver& driver, Blocks& blocks) : driver_(driver), blocks_(blocks) {
  addresses_.add(kOwnBegin, kOwnEnd);
  contents_.add(kOwnContentsBegin, kOwnContentsEnd);
  State& state = blocks_.state();
  state.own_reservations.each(
      [&](const OwnReservation* one) { addresses_.take_if_free(one->begin, one->begin + one->size); });
  state.own_physical.each([&](OwnPhysical* one) {
    contents_.take_at(one->contents, one->contents + room_of(one->size));
    if (one->word) by_word_[one->word] = one;
  });
  state.own_mappings.each([&](OwnMapping* one) { mappings_[one->begin] = one; });
}

CUresult Own::reserve(CUdeviceptr* address, uint64_t size, uint64_t alignment, CUdeviceptr wish,
                      unsigned long long flags) {
  std::lock_guard lock(blocks_.lock());
  if (!address) return CUDA_ERROR_INVALID_VALUE;
  if (wish && (is_placed(wish, size) || is_the_hosts(wish, size))) wish = 0;
  uint64_t taken = 0, wanted = 0, taken_size = 0;
  const uint64_t unit = std::max(alignment, kGranularity);
  if (!wish && size && size < (kOwnEnd - kOwnBegin) / 4 && (unit & (unit - 1)) == 0) {
    taken_size = rounded_up(size, kGranularity) + unit - kGranularity;
    taken = addresses_.take(taken_size);
    wanted = taken ? rounded_up(taken, unit) : 0;
  }
  CUresult error = driver_.cuMemAddressReserve(address, size, alignment, wanted ? wanted : wish, flags);
  if (taken) addresses_.add(taken, taken + taken_size);
  if (error) return error;
  OwnReservation* made = blocks_.state().own_reservations.make();
  if (!made) {
    driver_.cuMemAddressFree(*address, size);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  made->begin = *address;
  made->size = size;
  made->alignment = alignment;
  addresses_.take_if_free(made->begin, made->begin + size);
  return CUDA_SUCCESS;
}

CUresult Own::free(CUdeviceptr address, uint64_t size) {
  std::lock_guard lock(blocks_.lock());
  if (is_placed(address, size)) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult error = driver_.cuMemAddressFree(address, size)) return error;
  blocks_.state().own_reservations.each([&](OwnReservation* one) {
    if (one->begin != address) return;
    if (address >= kOwnBegin && address + one->size <= kOwnEnd) addresses_.add(address, address + one->size);
    blocks_.state().own_reservations.drop(one);
  });
  return CUDA_SUCCESS;
}

OwnPhysical* Own::made(uint64_t word, uint64_t size, const CUmemAllocationProp& properties) {
  std::lock_guard lock(blocks_.lock());
  const uint64_t contents = contents_.take(room_of(size));
  OwnPhysical* made = contents ? blocks_.state().own_physical.make() : nullptr;
  if (!made) {
    if (contents) contents_.add(contents, contents + room_of(size));
    return nullptr;
  }
  made->size = size;
  made->references = 1;
  made->device = properties.location.id;
  made->contents = contents;
  std::memcpy(made->properties, &properties, sizeof properties);
  named(made, word);
  return made;
}

void Own::named(OwnPhysical* physical, uint64_t word) {
  std::lock_guard lock(blocks_.lock());
  physical->word = word;
  by_word_[word] = physical;
}

OwnPhysical* Own::known(uint64_t word) const {
  std::lock_guard lock(blocks_.lock());
  const auto found = by_word_.find(word);
  return found == by_word_.end() ? nullptr : found->second;
}

const OwnMapping* Own::mapping_around(CUdeviceptr address) const {
  std::lock_guard lock(blocks_.lock());
  auto next = mappings_.upper_bound(address);
  if (next == mappings_.begin()) return nullptr;
  const OwnMapping* one = std::prev(next)->second;
  return address - one->begin < one->size ? one : nullptr;
}

void Own::drop_if_unused(OwnPhysical* physical) {
  if (physical->references || physical->mappings) return;
  contents_.add(physical->contents, physical->contents + room_of(physical->size));
  blocks_.state().own_physical.drop(physical);
}

bool Own::released(uint64_t word) {
  std::lock_guard lock(blocks_.lock());
  OwnPhysical* one = known(word);
  if (!one || --one->references) return !one;
  by_word_.erase(word);
  one->word = 0;
  drop_if_unused(one);
  return true;
}

CUresult Own::map(CUdeviceptr address, uint64_t size, uint64_t offset, uint64_t word,
                  CUmemGenericAllocationHandle real, unsigned long long flags) {
  std::lock_guard lock(blocks_.lock());
  if (is_placed(address, size)) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult error = driver_.cuMemMap(address, size, offset, real, flags)) return error;
  OwnPhysical* physical = known(word);
  // Not recorded by made(): memory of another process or of several devices, which refuses checkpoints.
  if (!physical) return CUDA_SUCCESS;
  OwnMapping* made = blocks_.state().own_mappings.make();
  if (!made) {
    driver_.cuMemUnmap(address, size);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  made->begin = address;
  made->size = size;
  made->offset = offset;
  made->physical = reinterpret_cast<uint64_t>(physical);
  mappings_[address] = made;
  ++physical->mappings;
  return CUDA_SUCCESS;
}

CUresult Own::unmap(CUdeviceptr address, uint64_t size) {
  std::lock_guard lock(blocks_.lock());
  if (is_placed(address, size)) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult error = driver_.cuMemUnmap(address, size)) return error;
  for (auto at = mappings_.lower_bound(address); at != mappings_.end() && at->first - address < size;) {
    OwnMapping* one = at->second;
    OwnPhysical* physical = physical_of(*one);
    at = mappings_.erase(at);
    blocks_.state().own_mappings.drop(one);
    --physical->mappings;
    drop_if_unused(physical);
  }
  return CUDA_SUCCESS;
}

CUresult Own::set_access(CUdeviceptr address, uint64_t size, const CUmemAccessDesc* access, size_t count) {
  std::lock_guard lock(blocks_.lock());
  if (is_placed(address, size)) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult error = driver_.cuMemSetAccess(address, size, access, count)) return error;
  for (auto at = mappings_.lower_bound(address); at != mappings_.end() && at->first - address < size; ++at)
    for (size_t i = 0; i < count; ++i)
      if (access[i].location.type == CU_MEM_LOCATION_TYPE_DEVICE && access[i].location.id >= 0 &&
          access[i].location.id < kDevices)
        at->second->access[access[i].location.id] = static_cast<uint8_t>(access[i].flags);
  return CUDA_SUCCESS;
}

Status Own::reserve_again() {
  std::lock_guard lock(blocks_.lock());
  std::string trouble;
  blocks_.state().own_reservations.each([&](const OwnReservation* one) {
    CUdeviceptr got = 0;
    const CUresult error = driver_.cuMemAddressReserve(&got, one->size, one->alignment, one->begin, 0);
    if (error || got != one->begin)
      trouble = formatted(
          "CUDA: the addresses from {:#x} ({} MiB) that the program has reserved (cuMemAddressReserve) "
          "cannot be had again ({})",
          one->begin, one->size >> 20, error ? driver_.name_of(error) : "they are taken");
  });
  return trouble.empty() ? Status() : Status(Error{trouble});
}

Status Own::map_again(const RealOf& real_of) {
  std::lock_guard lock(blocks_.lock());
  CUresult error = CUDA_SUCCESS;
  std::map<const OwnPhysical*, CUmemGenericAllocationHandle> nameless;  // mapped, without a handle
  blocks_.state().own_mappings.each([&](const OwnMapping* one) {
    const OwnPhysical* physical = physical_of(*one);
    CUmemGenericAllocationHandle handle = physical->word ? real_of(physical->word) : 0;
    if (!physical->word) {
      const auto known = nameless.try_emplace(physical);
      CUmemGenericAllocationHandle& made = known.first->second;
      if (known.second && !error) {
        const auto properties = properties_of(*physical);
        error = with_patience([&] { return driver_.cuMemCreate(&made, physical->size, &properties, 0); });
      }
      handle = made;
    }
    if (!error) error = driver_.cuMemMap(one->begin, one->size, one->offset, handle, 0);
  });
  for (const auto& [physical, handle] : nameless)
    if (handle) driver_.cuMemRelease(handle);
  return driver_.checked(error,
                         "memory that the program has mapped itself (cuMemMap) cannot be mapped again");
}

Status Own::give_access_again() {
  std::lock_guard lock(blocks_.lock());
  CUresult error = CUDA_SUCCESS;
  blocks_.state().own_mappings.each([&](const OwnMapping* one) {
    for (int device = 0; device < kDevices; ++device) {
      if (!one->access[device]) continue;
      const auto access = access_of(device, one->access[device]);
      if (!error) error = driver_.cuMemSetAccess(one->begin, one->size, &access, 1);
    }
  });
  return driver_.checked(error, "memory that the program has mapped itself cannot be opened again as it was");
}

CUresult Own::map_contents(const OwnPhysical& physical, const RealOf& real_of) {
  CUmemGenericAllocationHandle handle = physical.word ? real_of(physical.word) : 0;
  CUresult error = CUDA_SUCCESS;
  if (!physical.word)  // then it is mapped
    for (const auto& [begin, one] : mappings_)
      if (physical_of(*one) == &physical) {
        error = driver_.cuMemRetainAllocationHandle(&handle, reinterpret_cast<void*>(begin));
        break;
      }
  if (error) return error;
  CUdeviceptr got = 0;
  const auto access = access_of(physical.device, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  error = driver_.cuMemAddressReserve(&got, physical.size, kGranularity, physical.contents, 0);
  if (!error && got == physical.contents) error = driver_.cuMemMap(got, physical.size, 0, handle, 0);
  if (!error && got != physical.contents) error = CUDA_ERROR_ALREADY_MAPPED;
  if (!error) {
    contents_here_.emplace_back(got, physical.size);
    error = driver_.cuMemSetAccess(got, physical.size, &access, 1);
  } else if (got) {
    driver_.cuMemAddressFree(got, physical.size);
  }
  if (!physical.word) driver_.cuMemRelease(handle);
  return error;
}

Status Own::map_contents(const RealOf& real_of) {
  std::lock_guard lock(blocks_.lock());
  CUresult error = CUDA_SUCCESS;
  blocks_.state().own_physical.each([&](const OwnPhysical* one) {
    if (!error) error = map_contents(*one, real_of);
  });
  if (error) unmap_contents();
  return driver_.checked(error, "memory that the program has made itself (cuMemCreate) cannot be reached");
}

void Own::unmap_contents() {
  std::lock_guard lock(blocks_.lock());
  for (const auto& [begin, size] : contents_here_) {
    driver_.cuMemUnmap(begin, size);
    driver_.cuMemAddressFree(begin, size);
  }
  contents_here_.clear();
}

std::string Own::refusal() const {
  std::lock_guard lock(blocks_.lock());
  std::string why;
  blocks_.state().own_physical.each([&](const OwnPhysical* one) {
    const auto properties = properties_of(*one);
    if (properties.location.type != CU_MEM_LOCATION_TYPE_DEVICE)
      why = "cuMemCreate: memory of the host is mapped";
    else if (properties.requestedHandleTypes != CU_MEM_HANDLE_TYPE_NONE)
      why = "cuMemCreate: memory that other processes may have is mapped";
  });
  return why;
}

}  // namespace cropdl::memory
