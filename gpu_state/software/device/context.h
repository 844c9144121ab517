// Contexts, what is current in a thread, and the error that stays. A kernel's fault breaks its context: from
// then on every call answers with that error, as on a device (CUDA Driver API, "Error handling"; the runtime
// calls these errors sticky).
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstdint>
#include <string_view>

namespace cropdl::device {
class Device;
class Stream;
}  // namespace cropdl::device

struct CUctx_st {
  cropdl::device::Device* device = nullptr;
  bool is_primary = false;
  unsigned flags = 0;
  uint64_t id = 0;                                // cuCtxGetId
  std::atomic<int> error{0};                      // CUresult that stays
  std::atomic<size_t> limits[CU_LIMIT_MAX] = {};  // cuCtxSetLimit
  CUstream legacy = nullptr;                      // what stream 0 and CU_STREAM_LEGACY mean here
};

namespace cropdl::device {

// The calling thread's context, or null. (The stack of cuCtxPushCurrent is behind it.)
CUcontext current();
void set_current(CUcontext context);

// What nearly every function of the API begins with: CUDA_ERROR_NOT_INITIALIZED before cuInit,
// CUDA_ERROR_INVALID_CONTEXT without a current one, the error that stays.
CUresult enter(CUcontext* context);

// Breaks the context, once, and says why on stderr in one line.
void break_context(CUcontext context, CUresult error, std::string_view why);

}  // namespace cropdl::device
