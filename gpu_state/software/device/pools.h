// Memory in stream order: pools. An address is chosen at the call; it may be accessed from when the stream
// comes to the allocation until it comes to the free. What a pool uses is
// counted at the calls, as if the driver always inserted the dependencies that let it use freed memory again
// (CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES); what it reserves counts against its device. Any
// thread. Source: CUDA Driver API, "Stream Ordered Memory Allocator".
#pragma once

#include <cuda.h>

#include <cstdint>

namespace cropdl::device {

class Memory;
struct ReleaseWork;

// CUDA_ERROR_INVALID_HANDLE for pools that do not live, in all functions.
CUresult create_pool(const CUmemPoolProps& properties, CUmemoryPool* pool);
CUresult destroy_pool(CUmemoryPool pool);
// What a device begins with, and what cuMemAllocAsync uses.
CUmemoryPool default_pool(Memory& memory);
CUmemoryPool current_pool(Memory& memory);
CUresult set_current_pool(Memory& memory, CUmemoryPool pool);

CUresult trim_pool(CUmemoryPool pool, uint64_t keep);
// Whoever has waited for a stream, an event or a context says so: then pools give back what they hold beyond
// their thresholds. Cheap.
void pools_after_waiting();

CUresult set_pool_attribute(CUmemoryPool pool, CUmemPool_attribute which, const void* value);
CUresult get_pool_attribute(CUmemoryPool pool, CUmemPool_attribute which, void* value);
// Flags: CU_MEM_ACCESS_FLAGS_PROT_…
CUresult set_pool_access(CUmemoryPool pool, int device, unsigned flags);
CUresult get_pool_access(CUmemoryPool pool, int device, unsigned* flags);

// The call; the caller submits the AllocateWork. CUDA_ERROR_OUT_OF_MEMORY.
CUresult allocate_pooled(CUmemoryPool pool, uint64_t size, CUcontext user, CUdeviceptr* address,
                         uint64_t* id);
// The call of a free in stream order, which the ReleaseWork then does (submit() calls this). Of memory of
// pools, of cuMemAlloc, and what graphs left allocated. CUDA_ERROR_INVALID_VALUE: the work's address is not
// the beginning of such, or was freed before.
CUresult free_in_order(ReleaseWork* work);
// cuMemFree: at once, without waiting for anybody ("callers must ensure that all accesses to these pointer
// have completed").
CUresult release_pooled(CUdeviceptr address);
// What that context's streams allocated; and pools give back what they held for more. The context ends.
void release_pooled_of(CUcontext user);

}  // namespace cropdl::device
