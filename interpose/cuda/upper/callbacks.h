// The program's thread for its host functions: one for the process, made by the shim that first hands one to
// the library. UH, any thread, UH FS base; of libc: pthread_create, pthread_sigmask.
#pragma once

#include "interpose/one_abi/upper.h"
#include "interpose/seam/cuda_shims.h"

namespace cropdl::cuda_shim {

// False: there is none, and none can be made.
__attribute__((visibility("hidden"))) bool need_callback_thread();

// A call that gives the library a host function, again as long as the program is to stop first. `no_thread`:
// what it returns without the thread.
template <class R, class... A>
R call_with_callback(R no_thread, unsigned function, A... arguments) {
  if (one_abi::in_host_function()) return static_cast<R>(one_abi::kNotPermitted);
  if (!need_callback_thread()) return no_thread;
  for (;;) {
    const R r = one_abi::call_library<R>(function, arguments...);
    if (static_cast<int>(r) != one_abi::kCallAgain) return r;
  }
}

}  // namespace cropdl::cuda_shim
