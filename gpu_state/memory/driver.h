// The driver's functions that device memory needs, as pointers: whoever loads the driver fills them in, so
// that nothing here knows where it comes from. Names are the driver's own, versions spelled out (cuda.h's
// macros depend on how it is included). LH, LH FS base, any thread.
#pragma once

#include <cuda.h>

#include <string>

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
#define CROPDL_MEMBER(name) decltype(&::name) name = nullptr;
  CROPDL_DRIVER_FUNCTIONS(CROPDL_MEMBER)
#undef CROPDL_MEMBER

  // Fills all of them by name; false: one is not there, which *missing then names. `find`: as dlsym.
  template <class Find>
  bool fill(Find find, const char** missing) {
    *missing = nullptr;
#define CROPDL_FIND(name) \
  if (!(name = reinterpret_cast<decltype(name)>(find(#name))) && !*missing) *missing = #name;
    CROPDL_DRIVER_FUNCTIONS(CROPDL_FIND)
#undef CROPDL_FIND
    return *missing == nullptr;
  }

  // "CUDA_ERROR_OUT_OF_MEMORY", for lines.
  std::string name_of(CUresult result) const;
};

// What a process had that was killed comes back late: a restart that finds too little memory asks again, so
// often in all.
constexpr int kWaitsForMemory = 100;
extern int waits_for_memory;  // that are left. START
bool wait_for_memory();       // 100 ms; false: there are none left
template <class Ask>
CUresult with_patience(Ask ask) {
  CUresult error = ask();
  while (error == CUDA_ERROR_OUT_OF_MEMORY && wait_for_memory()) error = ask();
  return error;
}

// As long as it lives, calls of the calling thread neither disturb nor are refused because of a capture that
// some thread has begun: what the arena does behind a call of the program's is none of the program's calls.
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

// That context is the calling thread's as long as it lives.
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
