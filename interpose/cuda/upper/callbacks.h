// The program's callback thread, which runs its host functions: of streams, of graphs' nodes, of user
// objects. One per process, made by the shim that first passes a host function to the library. UH, any
// thread, UH FS base; from libc: pthread_create, pthread_sigmask.
#pragma once

#include "interpose/one_abi/upper.h"
#include "interpose/seam/cuda_shims.h"

namespace cropdl::cuda_shim {

// Makes the thread if there is none. False: it cannot be made.
__attribute__((visibility("hidden"))) bool need_callback_thread();

// The result without that thread: cudaErrorMemoryAllocation, CUDA_ERROR_OUT_OF_MEMORY.
inline constexpr int kNoMemory = 2;

// `passes_one`: the call passes a host function. Repeats while the program is to stop first.
template <class R, class... A>
R call_with_callback(bool passes_one, unsigned function, A... arguments) {
  if (passes_one && !need_callback_thread()) return static_cast<R>(kNoMemory);
  for (;;) {
    const R r = one_abi::call_library<R>(function, arguments...);
    if (static_cast<int>(r) != one_abi::kCallAgain) return r;
  }
}

}  // namespace cropdl::cuda_shim
