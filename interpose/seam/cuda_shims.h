// What CUDA's shims call in the lower half besides the functions of their libraries: the table of
// kLibraryCudaShims. Images hold the indices: append-only.
#pragma once

namespace cropdl::seam {

// Of the process's thread for host functions: it is there, or the caller is to make it; another caller is
// making it, so that this one asks again; there can be none.
enum NeedCallbackThread : int { kThreadThere, kMakeThread, kAwaitThread, kNoThread };

enum CudaShimCall : unsigned {
  // int (): NeedCallbackThread.
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
