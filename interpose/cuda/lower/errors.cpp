// A thread's last error of the runtime, which outlives the runtime that it came from: it is noted when a call
// fails (one_abi::note_error), by hand or generated. LH, LH FS base, any thread.
#include "interpose/cuda/lower/real.h"

namespace rt = cropdl::one_abi;

namespace cropdl::cuda {
namespace {

// The device is lost to this process: every call from now on says so, and so does the runtime when it is
// asked for the last error. Its other errors may be of calls that the program did not make.
bool stays(cudaError_t error) {
  switch (error) {
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchTimeout:
    case cudaErrorAssert:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorLaunchFailure:
    case cudaErrorECCUncorrectable:
    case cudaErrorExternalDevice:
      return true;
    default:
      return false;
  }
}

// The runtime is not begun for the sake of an error that it cannot have.
cudaError_t last(bool forget) {
  const auto noted = static_cast<cudaError_t>(rt::noted_error(forget));
  if (!cropdl::cuda::opened(cropdl::cuda::kCudart)) return noted;
  const cudaError_t its = forget ? CROPDL_CUDART(cudaGetLastError)() : CROPDL_CUDART(cudaPeekAtLastError)();
  return stays(its) ? its : noted;
}

}  // namespace
}  // namespace cropdl::cuda

using namespace cropdl::cuda;

extern "C" {

cudaError_t lower_cudaGetLastError() {
  rt::Call call;
  return last(true);
}
cudaError_t lower_cudaPeekAtLastError() {
  rt::Call call;
  return last(false);
}

}  // extern "C"
