// Managed memory: what was advised and prefetched. All of it lies where both sides reach it, so that neither
// moves anything; what programs ask for is what they said (CUDA Driver API, "cuMemAdvise").
#include "gpu_state/software/device/memory_managed.h"

#include "gpu_state/software/device/memory_state.h"
#include "gpu_state/software/device/work.h"

namespace cropdl::device {

namespace {

// The managed allocation that all of the range lies in; null.
Allocation* managed_at(CUdeviceptr address, uint64_t size) {
  Allocation* known = allocation_at(address);
  if (!known || known->kind != MemoryKind::kManaged) return nullptr;
  if (address - known->begin >= known->size || size > known->size - (address - known->begin)) return nullptr;
  return known;
}

}  // namespace

CUresult advise(CUdeviceptr address, uint64_t size, CUmem_advise advice, int device) {
  std::lock_guard lock(memory_lock());
  Allocation* known = managed_at(address, size);
  if (!known) return CUDA_ERROR_INVALID_VALUE;
  Managed& managed = known->managed;
  const bool host = device == CU_DEVICE_CPU;
  switch (advice) {
    case CU_MEM_ADVISE_SET_READ_MOSTLY:
      managed.read_mostly = true;
      return CUDA_SUCCESS;
    case CU_MEM_ADVISE_UNSET_READ_MOSTLY:
      managed.read_mostly = false;
      return CUDA_SUCCESS;
    case CU_MEM_ADVISE_SET_PREFERRED_LOCATION:
      managed.preferred = device;
      return CUDA_SUCCESS;
    case CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION:
      managed.preferred = CU_DEVICE_INVALID;
      return CUDA_SUCCESS;
    case CU_MEM_ADVISE_SET_ACCESSED_BY:
    case CU_MEM_ADVISE_UNSET_ACCESSED_BY: {
      const bool set = advice == CU_MEM_ADVISE_SET_ACCESSED_BY;
      if (host) {
        managed.accessed_by_host = set;
      } else {
        const uint32_t bit = 1u << device;
        managed.accessed_by = set ? managed.accessed_by | bit : managed.accessed_by & ~bit;
      }
      return CUDA_SUCCESS;
    }
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult check_managed(CUdeviceptr address, uint64_t size) {
  std::lock_guard lock(memory_lock());
  return managed_at(address, size) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult managed_facts(CUdeviceptr address, uint64_t size, Managed* facts) {
  std::lock_guard lock(memory_lock());
  const Allocation* known = managed_at(address, size);
  if (!known) return CUDA_ERROR_INVALID_VALUE;
  *facts = known->managed;
  return CUDA_SUCCESS;
}

CUresult perform(const PrefetchWork& work, CUcontext) {
  std::lock_guard lock(memory_lock());
  Allocation* known = managed_at(work.address, work.size);
  if (!known) return CUDA_ERROR_ILLEGAL_ADDRESS;  // freed since the call
  known->managed.prefetched = work.device;
  return CUDA_SUCCESS;
}

}  // namespace cropdl::device
