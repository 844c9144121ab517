// Virtual memory management: addresses that are reserved anywhere, physical memory, and mappings of one onto
// the other. Physical memory is part of one file in memory, so that it can be mapped several times. What is
// mapped may be accessed by a device after set_mapped_access() only; the access tables know (access.h). A
// reservation without a mapping is plain empty memory, so that a kernel that still runs there meets an error
// instead of ending the process. Any thread. Source: CUDA Driver API, "Virtual Memory Management".
#pragma once

#include <cuda.h>

#include <cstdint>
#include <optional>

#include "gpu_state/software/device/allocation.h"

namespace cropdl::device {

// All sizes and addresses are multiples of kPage (area.h): else CUDA_ERROR_INVALID_VALUE, as for ranges that
// are not what the function wants. `hint`: where it begins if nothing is there; 0: anywhere.
CUresult reserve_addresses(uint64_t size, uint64_t alignment, uint64_t hint, CUdeviceptr* address);
// Exactly one reservation, without a mapping. Waits for nobody: as long as work that was given to any device
// before has not been done, the addresses stay empty memory, so that it meets neither a hole nor what the
// system puts there next.
CUresult free_addresses(CUdeviceptr address, uint64_t size);

CUresult create_physical(uint64_t size, const CUmemAllocationProp& properties,
                         CUmemGenericAllocationHandle* handle);
CUresult release_physical(CUmemGenericAllocationHandle handle);
CUresult properties_of(CUmemGenericAllocationHandle handle, CUmemAllocationProp* properties);
CUresult retain_mapped(uint64_t address, CUmemGenericAllocationHandle* handle);

CUresult map_physical(CUdeviceptr address, uint64_t size, uint64_t offset,
                      CUmemGenericAllocationHandle handle);
CUresult unmap_physical(CUdeviceptr address, uint64_t size);  // exactly one mapping or several in a row
// Flags: CU_MEM_ACCESS_FLAGS_PROT_… Whole mappings in a row.
CUresult set_mapped_access(CUdeviceptr address, uint64_t size, int device, unsigned flags);
CUresult get_mapped_access(CUdeviceptr address, int device, unsigned* flags);

// Whether the address lies in a reservation.
bool virtual_contains(uint64_t address);
// Whether that device may access all of these bytes by mappings: what copies ask.
bool virtual_allows(int device, uint64_t address, uint64_t size, bool write);
// The mapping around an address. With memory_lock() held.
std::optional<Allocation> mapping_at(uint64_t address);

}  // namespace cropdl::device
