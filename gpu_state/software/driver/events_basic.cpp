// cuEvent*. Source: CUDA Driver API 13.0, "Event Management".
#include "gpu_state/software/device/events.h"

#include <cuda.h>

#include "gpu_state/software/device/context.h"
#include "gpu_state/software/device/work.h"
#include "gpu_state/software/driver/per_thread.h"

using namespace cropdl;
using driver::or_own;

extern "C" {

CUresult cuEventCreate(CUevent* event, unsigned flags) {
  CUcontext context = nullptr;
  if (CUresult error = device::enter(&context); error != CUDA_SUCCESS) return error;
  if (!event) return CUDA_ERROR_INVALID_VALUE;
  return device::create_event(context, flags, event);
}

CUresult cuEventDestroy_v2(CUevent event) {
  CUcontext context = nullptr;
  if (CUresult error = device::enter(&context); error != CUDA_SUCCESS) return error;
  return device::destroy_event(event);
}

CUresult cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned flags) {
  CUcontext context = nullptr;
  if (CUresult error = device::enter(&context); error != CUDA_SUCCESS) return error;
  if (flags & ~static_cast<unsigned>(CU_EVENT_RECORD_EXTERNAL)) return CUDA_ERROR_INVALID_VALUE;
  return device::submit(stream, device::RecordWork{event, flags == CU_EVENT_RECORD_EXTERNAL});
}
CUresult cuEventRecordWithFlags_ptsz(CUevent event, CUstream stream, unsigned flags) {
  return cuEventRecordWithFlags(event, or_own(stream), flags);
}

CUresult cuEventRecord(CUevent event, CUstream stream) {
  return cuEventRecordWithFlags(event, stream, CU_EVENT_RECORD_DEFAULT);
}
CUresult cuEventRecord_ptsz(CUevent event, CUstream stream) { return cuEventRecord(event, or_own(stream)); }

CUresult cuEventQuery(CUevent event) {
  CUcontext context = nullptr;
  if (CUresult error = device::enter(&context); error != CUDA_SUCCESS) return error;
  return device::query_event(event);
}

CUresult cuEventSynchronize(CUevent event) {
  CUcontext context = nullptr;
  if (CUresult error = device::enter(&context); error != CUDA_SUCCESS) return error;
  return device::synchronize_event(event);
}

CUresult cuEventElapsedTime_v2(float* milliseconds, CUevent start, CUevent end) {
  CUcontext context = nullptr;
  if (CUresult error = device::enter(&context); error != CUDA_SUCCESS) return error;
  return device::elapsed_time(milliseconds, start, end);
}

CUresult cuEventElapsedTime(float* milliseconds, CUevent start, CUevent end) {
  return cuEventElapsedTime_v2(milliseconds, start, end);
}

}  // extern "C"
