// cuProfiler*: no profiler exists; programs may call these functions nevertheless.
#include <cuda.h>
#include <cudaProfiler.h>

#include "gpu_state/software/device/context.h"

extern "C" {

CUresult cuProfilerStart() {
  CUcontext context;
  return cropdl::device::enter(&context);
}

CUresult cuProfilerStop() {
  CUcontext context;
  return cropdl::device::enter(&context);
}

}  // extern "C"
