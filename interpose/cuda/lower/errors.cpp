// A thread's last error of the runtime. It is recorded when a call fails (one_abi::note_error), in
// hand-written and generated code, and so survives the runtime. LH, LH FS base, any thread.
#include <algorithm>
#include <iterator>

#include "interpose/cuda/lower/real.h"

using namespace cropdl::cuda;

namespace {

// The device is lost to this process: then every call returns the error, and so does the runtime's last
// error. Other last errors of the runtime may come from calls that the program did not make.
constexpr cudaError_t kStays[] = {
    cudaErrorIllegalAddress,      cudaErrorLaunchTimeout,      cudaErrorAssert,
    cudaErrorHardwareStackError,  cudaErrorIllegalInstruction, cudaErrorMisalignedAddress,
    cudaErrorInvalidAddressSpace, cudaErrorInvalidPc,          cudaErrorLaunchFailure,
    cudaErrorECCUncorrectable,    cudaErrorExternalDevice};

// Does not start the runtime to ask for an error that it cannot have.
cudaError_t last(bool forget) {
  rt::Call call;
  const auto noted = static_cast<cudaError_t>(rt::noted_error(forget));
  if (!opened(kCudart)) return noted;
  const cudaError_t its = forget ? CROPDL_CUDART(cudaGetLastError)() : CROPDL_CUDART(cudaPeekAtLastError)();
  return std::ranges::find(kStays, its) != std::end(kStays) ? its : noted;
}

}  // namespace

extern "C" {

cudaError_t lower_cudaGetLastError() { return last(true); }
cudaError_t lower_cudaPeekAtLastError() { return last(false); }

}  // extern "C"
