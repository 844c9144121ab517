// What CUDA's shims call in the lower half besides the functions of their libraries: the table of
// kLibraryCudaShims. Images hold the indices: append-only.
#pragma once

namespace cropdl::seam {

enum CudaShimCall : unsigned {
  // int (): 1 if the process has no thread for host functions yet and the caller is to make it, else 0.
  kNeedCallbackThread,
  // int (): it could not make it.
  kNoCallbackThread,
  // int (): that thread's: runs host functions, until the thread is wanted elsewhere.
  kRunCallbacks,
  // int (int): the calling thread's last error of the runtime, which the shim found itself.
  kNoteError,
  kCudaShimCalls
};

}  // namespace cropdl::seam
