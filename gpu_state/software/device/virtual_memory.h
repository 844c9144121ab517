// Virtual memory management: reserved addresses anywhere, physical memory, and mappings between them.
// Physical memory is part of one file in memory, so that it can be mapped several times. A device may access
// a mapping only after set_mapped_access(), which updates the access tables (access.h). A reservation without
// a mapping is plain memory that no device may access: a kernel that still uses it gets an error, and the
// process does not end. Any thread. Source: CUDA Driver API, "Virtual Memory Management".
#pragma once

#include <cuda.h>

#include <cstdint>
#include <optional>

#include "gpu_state/software/device/allocation.h"

namespace cropdl::device {

// All sizes and addresses are multiples of kPage (area.h): otherwise CUDA_ERROR_INVALID_VALUE, as for
// unsuitable ranges. `hint`: the requested address, used if free; 0: anywhere.
CUresult reserve_addresses(uint64_t size, uint64_t alignment, uint64_t hint, CUdeviceptr* address);
// Frees exactly one reservation, which has no mapping. Does not wait: until all work already submitted to any
// device is done, the addresses stay reserved, so that this work meets neither a hole nor a later mapping of
// the operating system's.
CUresult free_addresses(CUdeviceptr address, uint64_t size);

CUresult create_physical(uint64_t size, const CUmemAllocationProp& properties,
                         CUmemGenericAllocationHandle* handle);
CUresult release_physical(CUmemGenericAllocationHandle handle);
CUresult properties_of(CUmemGenericAllocationHandle handle, CUmemAllocationProp* properties);
CUresult retain_mapped(uint64_t address, CUmemGenericAllocationHandle* handle);

CUresult map_physical(CUdeviceptr address, uint64_t size, uint64_t offset,
                      CUmemGenericAllocationHandle handle);
CUresult unmap_physical(CUdeviceptr address, uint64_t size);  // exactly one mapping, or several adjacent ones
// Flags: CU_MEM_ACCESS_FLAGS_PROT_… For whole adjacent mappings.
CUresult set_mapped_access(CUdeviceptr address, uint64_t size, int device, unsigned flags);
CUresult get_mapped_access(CUdeviceptr address, int device, unsigned* flags);

// Whether the address is in a reservation.
bool virtual_contains(uint64_t address);
// Whether the device may access all of these bytes through mappings; for copies.
bool virtual_allows(int device, uint64_t address, uint64_t size, bool write);
// The mapping that contains the address. With memory_lock() held.
std::optional<Allocation> mapping_at(uint64_t address);

}  // namespace cropdl::device
