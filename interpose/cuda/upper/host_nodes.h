// Calls that put functions of the program into graphs. UH, any thread, UH FS base.
#pragma once

#include "interpose/cuda/upper/callbacks.h"

namespace cropdl::cuda_shim {

template <class R, class... A>
R call_with_thread(bool wanted, unsigned function, A... arguments) {
  if (one_abi::in_host_function()) return static_cast<R>(one_abi::kNotPermitted);
  if (wanted && !need_callback_thread()) return static_cast<R>(kNoMemory);
  return one_abi::call_library<R>(function, arguments...);
}

}  // namespace cropdl::cuda_shim
