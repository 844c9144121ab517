#include "gpu_state/software/device/memory_managed.h"

#include <iterator>
#include <map>

#include "gpu_state/software/device/heap.h"
#include "gpu_state/software/device/work.h"

namespace cropdl::device {

namespace {

// Each entry holds from its address up to the next one; below the first there is no advice. Guarded by
// memory_lock().
std::map<uint64_t, Advice>& advised() {
  static auto* kAdvised = new std::map<uint64_t, Advice>;
  return *kAdvised;
}

std::map<uint64_t, Advice>::iterator cut_at(uint64_t address) {
  auto& all = advised();
  auto next = all.upper_bound(address);
  if (next != all.begin()) {
    auto here = std::prev(next);
    return here->first == address ? here : all.emplace(address, here->second).first;
  }
  return all.emplace(address, Advice{}).first;
}

template <class Change>
void change(uint64_t address, uint64_t size, Change change) {
  const uint64_t begin = address / kHostPage * kHostPage;
  const uint64_t end = (address + size + kHostPage - 1) / kHostPage * kHostPage;
  auto last = cut_at(end);
  auto first = cut_at(begin);
  for (auto one = first; one != last; ++one) change(one->second);
  // Merges equal neighbours.
  auto& all = advised();
  auto one = first == all.begin() ? first : std::prev(first);
  for (; one != all.end() && one->first <= end;) {
    const bool same = one == all.begin() ? one->second == Advice{} : one->second == std::prev(one)->second;
    one = same ? all.erase(one) : std::next(one);
  }
}

// Whether the whole range is in one allocation of managed memory.
bool is_managed(CUdeviceptr address, uint64_t size) {
  const Allocation* known = allocation_at(address);
  if (!known) known = large_managed_at(address);
  return known && known->kind == MemoryKind::kManaged && size && address - known->begin < known->size &&
         size <= known->size - (address - known->begin);
}

}  // namespace

CUresult check_managed(CUdeviceptr address, uint64_t size) {
  std::lock_guard lock(memory_lock());
  return is_managed(address, size) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult advise(CUdeviceptr address, uint64_t size, CUmem_advise advice, int device) {
  std::lock_guard lock(memory_lock());
  if (!is_managed(address, size)) return CUDA_ERROR_INVALID_VALUE;
  switch (advice) {
    case CU_MEM_ADVISE_SET_READ_MOSTLY:
    case CU_MEM_ADVISE_UNSET_READ_MOSTLY:
      change(address, size, [&](Advice& one) { one.read_mostly = advice == CU_MEM_ADVISE_SET_READ_MOSTLY; });
      return CUDA_SUCCESS;
    case CU_MEM_ADVISE_SET_PREFERRED_LOCATION:
      change(address, size, [&](Advice& one) { one.preferred = device; });
      return CUDA_SUCCESS;
    case CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION:
      change(address, size, [&](Advice& one) { one.preferred = CU_DEVICE_INVALID; });
      return CUDA_SUCCESS;
    case CU_MEM_ADVISE_SET_ACCESSED_BY:
    case CU_MEM_ADVISE_UNSET_ACCESSED_BY:
      change(address, size, [&](Advice& one) {
        const bool set = advice == CU_MEM_ADVISE_SET_ACCESSED_BY;
        if (device == CU_DEVICE_CPU) {
          one.accessed_by_host = set;
        } else {
          const uint32_t bit = 1u << device;
          one.accessed_by = set ? one.accessed_by | bit : one.accessed_by & ~bit;
        }
      });
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult record_prefetch(CUdeviceptr address, uint64_t size, int device) {
  std::lock_guard lock(memory_lock());
  if (!is_managed(address, size)) return CUDA_ERROR_INVALID_VALUE;
  change(address, size, [&](Advice& one) { one.prefetched = device; });
  return CUDA_SUCCESS;
}

CUresult advice_for(CUdeviceptr address, uint64_t size, Advice* advice) {
  std::lock_guard lock(memory_lock());
  if (!is_managed(address, size)) return CUDA_ERROR_INVALID_VALUE;
  auto& all = advised();
  auto one = all.upper_bound(address);
  *advice = one == all.begin() ? Advice{} : std::prev(one)->second;
  for (; one != all.end() && one->first < address + size; ++one) {
    const Advice& other = one->second;
    advice->read_mostly &= other.read_mostly;
    if (advice->preferred != other.preferred) advice->preferred = CU_DEVICE_INVALID;
    if (advice->prefetched != other.prefetched) advice->prefetched = CU_DEVICE_INVALID;
    advice->accessed_by &= other.accessed_by;
    advice->accessed_by_host &= other.accessed_by_host;
  }
  return CUDA_SUCCESS;
}

void forget_advice(CUdeviceptr address, uint64_t size) {
  if (!advised().empty()) change(address, size, [](Advice& one) { one = Advice{}; });
}

CUresult perform(const PrefetchWork& work, CUcontext) {
  const CUresult error = work.recorded ? check_managed(work.address, work.size)
                                       : record_prefetch(work.address, work.size, work.device);
  return error ? CUDA_ERROR_ILLEGAL_ADDRESS : CUDA_SUCCESS;  // freed after the call
}

}  // namespace cropdl::device
