// Copies and fills: checks at the call (examine), execution (perform, work.h). Every byte of a row is
// checked, at the call against the memory allocated then, and again at execution, since memory may be
// allocated and freed in stream order.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "gpu_state/software/device/allocation.h"
#include "gpu_state/software/device/work.h"

namespace cropdl::device {

enum class Where : uint8_t { kDevice, kManaged, kPinned, kPageable, kArray };  // registered is kPinned

struct Side {
  Where where = Where::kPageable;
  bool as_host = false;      // the caller named it host memory
  bool sync_memops = false;  // CU_POINTER_ATTRIBUTE_SYNC_MEMOPS
  int device = 0;
  CUcontext context = nullptr;  // the memory's owner; null: host memory or a mapping
  // For the API's rules on synchronization: managed memory is what the caller says it is.
  bool is_host() const { return as_host || where == Where::kPinned || where == Where::kPageable; }
};

struct CopyFacts {
  Side source, destination;
  uint64_t bytes = 0;  // 0: nothing to do
};

// CUDA_ERROR_INVALID_VALUE if memory does not exist, is too small, is not on the side that the caller named,
// or is mapped without access for the device that copies: the context's, or those of a peer copy. Sets the
// work's devices.
CUresult examine(CopyWork& work, CUcontext context, CopyFacts* facts);
CUresult examine(MemsetWork& work, CUcontext context, Side* side);

// Copies the bytes of a host source, row by row. False: they cannot be read.
bool stage(const CUDA_MEMCPY3D& copy, std::vector<std::byte>* into);

// A copy of one row. Both sides are identified by their addresses unless a type is given.
CUDA_MEMCPY3D row_copy(CUmemorytype to, uint64_t destination, CUmemorytype from, uint64_t source,
                       size_t size);

// The calls cuMemcpy… and cuMemset…, with the rules of "API synchronization behavior" (CUDA Driver API). In a
// captured stream they become nodes. `asynchronous`: the …Async variants. copy_calls.cpp.
CUresult copy(CopyWork work, CUstream stream, bool asynchronous);
CUresult fill(MemsetWork work, CUstream stream, bool asynchronous);

}  // namespace cropdl::device
