// Stream-ordered memory: pools. The call chooses an address; the memory is accessible from the stream's
// allocation to its free. A pool's used bytes are counted at the calls, as if the driver always inserted the
// dependencies that allow reuse of freed memory (CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES); its
// reserved bytes count against its device. Any thread. Source: CUDA Driver API, "Stream Ordered Memory
// Allocator".
#pragma once

#include <cuda.h>

#include <cstdint>

namespace cropdl::device {

class Memory;
struct ReleaseWork;

// All functions return CUDA_ERROR_INVALID_HANDLE for a pool that does not exist.
CUresult create_pool(const CUmemPoolProps& properties, CUmemoryPool* pool);
CUresult destroy_pool(CUmemoryPool pool);
// The device's default pool, and the pool that cuMemAllocAsync uses.
CUmemoryPool default_pool(Memory& memory);
CUmemoryPool current_pool(Memory& memory);
CUresult set_current_pool(Memory& memory, CUmemoryPool pool);

CUresult trim_pool(CUmemoryPool pool, uint64_t keep);
// Call after waiting for a stream, an event or a context: pools then release what they hold beyond their
// thresholds. Cheap.
void pools_after_waiting();

CUresult set_pool_attribute(CUmemoryPool pool, CUmemPool_attribute which, const void* value);
CUresult get_pool_attribute(CUmemoryPool pool, CUmemPool_attribute which, void* value);
// Flags: CU_MEM_ACCESS_FLAGS_PROT_…
CUresult set_pool_access(CUmemoryPool pool, int device, unsigned flags);
CUresult get_pool_access(CUmemoryPool pool, int device, unsigned* flags);

// The part of an allocation at the call; the caller submits the AllocateWork. CUDA_ERROR_OUT_OF_MEMORY.
CUresult allocate_pooled(CUmemoryPool pool, uint64_t size, CUcontext user, CUdeviceptr* address,
                         uint64_t* id);
// The part of a stream-ordered free at the call; the ReleaseWork does the rest (submit() calls this). For
// memory of pools, of cuMemAlloc, and memory that graphs left allocated. CUDA_ERROR_INVALID_VALUE: not the
// beginning of such memory, or already freed.
CUresult free_in_order(ReleaseWork* work);
// cuMemFree: immediate, without waiting ("callers must ensure that all accesses to these pointer have
// completed").
CUresult release_pooled(CUdeviceptr address);
// Releases the allocations of that context's streams, and the memory that pools kept for reuse. The context
// ends.
void release_pooled_of(CUcontext user);

}  // namespace cropdl::device
