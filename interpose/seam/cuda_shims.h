// The table of kLibraryCudaShims: what CUDA's shims call besides their libraries. Append-only: in images.
#pragma once

namespace cropdl::seam {

// State of the process's thread for host functions: it exists; the caller must make it; another caller is
// making it, so ask again; it cannot exist.
enum NeedCallbackThread : int { kThreadThere, kMakeThread, kAwaitThread, kNoThread };

enum CudaShimCall : unsigned {
  // int (): returns a NeedCallbackThread.
  kNeedCallbackThread,
  // int (): reports that the caller could not make the thread.
  kNoCallbackThread,
  // int (): called by that thread: runs host functions until the thread is needed elsewhere.
  kRunCallbacks,
  // int (int): sets the calling thread's last error of the runtime, for an error that the shim found itself.
  kNoteError,
  kCudaShimCalls
};

}  // namespace cropdl::seam
