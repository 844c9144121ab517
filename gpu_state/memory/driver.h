// The driver's functions that device memory needs, as pointers. The code that loads the driver sets them, so
// this folder does not depend on which driver it is. Names are the driver's own with explicit versions,
// because cuda.h's macros depend on how it is included. LH, LH FS base, any thread.
#pragma once

#include <cuda.h>

#include <string>

#include "base/result.h"

namespace cropdl::memory {

// clang-format off
#define CROPDL_DRIVER_FUNCTIONS(X) \
  X(cuGetErrorName) X(cuDeviceGetAttribute) X(cuDeviceTotalMem_v2) X(cuCtxPushCurrent_v2) X(cuCtxPopCurrent_v2) \
  X(cuThreadExchangeStreamCaptureMode) \
  X(cuMemAddressReserve) X(cuMemAddressFree) X(cuMemGetAllocationGranularity) X(cuMemCreate) X(cuMemRelease) \
  X(cuMemMap) X(cuMemUnmap) X(cuMemSetAccess) X(cuMemRetainAllocationHandle) \
  X(cuMemAllocManaged) X(cuMemFree_v2) X(cuMemAdvise_v2) X(cuMemPrefetchAsync_v2) \
  X(cuMemHostAlloc) X(cuMemFreeHost) X(cuMemcpyDtoHAsync_v2) X(cuMemcpyHtoDAsync_v2) X(cuMemsetD8Async) \
  X(cuStreamCreate) X(cuStreamDestroy_v2) X(cuStreamSynchronize) X(cuStreamGetId) X(cuStreamGetCtx) X(cuStreamGetDevice) \
  X(cuEventCreate) X(cuEventDestroy_v2) X(cuEventRecord) X(cuEventQuery) X(cuEventSynchronize)
// clang-format on

struct Driver {
#define CROPDL_MEMBER(name) \
  decltype(&::name) name = nullptr;  // NOLINT(bugprone-macro-parentheses): a declaration
  CROPDL_DRIVER_FUNCTIONS(CROPDL_MEMBER)
#undef CROPDL_MEMBER

  // For messages: for example "CUDA_ERROR_OUT_OF_MEMORY".
  std::string name_of(CUresult result) const;
  // `what` failed, if this is no success: "device memory cannot be read".
  Status checked(CUresult result, const char* what) const;
};

// The driver releases a killed process's memory late: a restart tries again, in all at most this often.
constexpr int kWaitsForMemory = 100;
inline int waits_for_memory = kWaitsForMemory;  // remaining. START
bool wait_for_memory();                         // sleeps 100 ms; false: none remain
template <class Ask>
CUresult with_patience(Ask ask) {
  CUresult error = ask();
  while (error == CUDA_ERROR_OUT_OF_MEMORY && wait_for_memory()) error = ask();
  return error;
}

// While it exists, the calling thread's driver calls neither disturb a stream capture that any thread has
// begun nor are refused because of it: the program did not make these calls.
class OutsideOfCaptures {
 public:
  explicit OutsideOfCaptures(const Driver& driver) : driver_(driver) {
    driver_.cuThreadExchangeStreamCaptureMode(&mode_);
  }
  ~OutsideOfCaptures() { driver_.cuThreadExchangeStreamCaptureMode(&mode_); }
  OutsideOfCaptures(const OutsideOfCaptures&) = delete;
  OutsideOfCaptures& operator=(const OutsideOfCaptures&) = delete;

 private:
  const Driver& driver_;
  CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_RELAXED;
};

// Makes the context current for the calling thread while it exists.
class InContext {
 public:
  InContext(const Driver& driver, CUcontext context)
      : driver_(driver), result_(driver.cuCtxPushCurrent_v2(context)) {}
  ~InContext() {
    CUcontext popped;
    if (result_ == CUDA_SUCCESS) driver_.cuCtxPopCurrent_v2(&popped);
  }
  InContext(const InContext&) = delete;
  InContext& operator=(const InContext&) = delete;
  CUresult result() const { return result_; }

 private:
  const Driver& driver_;
  const CUresult result_;
};

}  // namespace cropdl::memory
