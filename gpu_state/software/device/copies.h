// Copies and fills: what is said of them at the call (examine), and the doing (perform, work.h). Rows are
// checked to the byte: at the call against what is allocated then, and again when they run, since memory may
// come and go in stream order.
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
  CUcontext context = nullptr;  // whose memory it is; null: the host's, a mapping
  // How the API's rules on what waits see it: managed memory is what the caller says it is.
  bool is_host() const { return as_host || where == Where::kPinned || where == Where::kPageable; }
};

struct CopyFacts {
  Side source, destination;
  uint64_t bytes = 0;  // 0: there is nothing to do
};

// CUDA_ERROR_INVALID_VALUE for what is not there, not so large, not on the side that the caller said, or
// mapped without access for the device that does it: the context's, or those of a peer copy. Writes the
// work's devices.
CUresult examine(CopyWork& work, CUcontext context, CopyFacts* facts);
CUresult examine(MemsetWork& work, CUcontext context, Side* side);

// The bytes of a source of the host's, row after row. False: they cannot be read.
bool stage(const CUDA_MEMCPY3D& copy, std::vector<std::byte>* into);

// A copy of one row, both sides found by their addresses unless said otherwise.
CUDA_MEMCPY3D row_copy(CUmemorytype to, uint64_t destination, CUmemorytype from, uint64_t source,
                       size_t size);

// The calls: cuMemcpy… and cuMemset… with the rules of "API synchronization behavior" (CUDA Driver API). In a
// stream that is captured they become nodes. `asynchronous`: the …Async variants. copy_calls.cpp.
CUresult copy(CopyWork work, CUstream stream, bool asynchronous);
CUresult fill(MemsetWork work, CUstream stream, bool asynchronous);

}  // namespace cropdl::device
