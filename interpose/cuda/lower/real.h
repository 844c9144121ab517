// The family's real libraries in this process, and how hand-written code calls them. LH, LH FS base.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstdint>
#include <span>

#include "calls_cudart.h"
#include "calls_driver.h"
#include "cudart_functions.h"
#include "driver_functions.h"
#include "interpose/one_abi/lower.h"

extern const cropdl::one_abi::RealLibrary cropdl_cudart_lower_table_library;
extern const cropdl::one_abi::RealLibrary cropdl_driver_lower_table_library;

namespace cropdl::cuda {

// Short names for this folder.
namespace rt = one_abi;
namespace kind = one_abi::kind;
namespace cudart = seam::cudart;
namespace driver = seam::driver;

inline constexpr const one_abi::RealLibrary& kCudart = cropdl_cudart_lower_table_library;
inline constexpr const one_abi::RealLibrary& kDriver = cropdl_driver_lower_table_library;

// The libraries in this build.
struct Shipped {
  const one_abi::RealLibrary* library;
  void* const* table;
};
std::span<const Shipped> shipped();
// The same by seam::LibraryNumber; null: this build does not have the library.
const one_abi::RealLibrary* const* libraries();

// A function by which a new handle, kept state or a refusal is named.
struct Maker {
  const one_abi::RealLibrary& library;
  uint32_t function;
};
// The same as something to call. Looked up at the call: an argument is evaluated before the function that it
// is passed to has begun its one_abi::Call, and the first look-up opens the library.
template <class F>
struct RealFunction : Maker {
  bool own = false;  // its stream 0 is the calling thread's default stream (NAME_ptsz)
  template <class... A>
  auto operator()(A... a) const {
    return one_abi::function_of<F>(library, function)(a...);
  }
};

// Whether the library's file was opened in this process. Before that, it has no state.
bool opened(const one_abi::RealLibrary& library);

// Whether the program has initialised the driver (cuInit, by any call). Looking for a device before would do
// so, and the driver would read a CUDA_VISIBLE_DEVICES that the program has not set yet. Any thread.
bool driver_begun();

}  // namespace cropdl::cuda

// The real function of that name: CROPDL_CUDART(cudaMalloc)(&p, n).
#define CROPDL_CUDART(name) \
  (cropdl::one_abi::function_of<decltype(name)>(cropdl::cuda::kCudart, cropdl::seam::cudart::kFn_##name))
// Its variant for the thread's own default stream.
#define CROPDL_CUDART_PTSZ(name)                                       \
  (cropdl::one_abi::function_of<decltype(name)>(cropdl::cuda::kCudart, \
                                                cropdl::seam::cudart::kFn_##name##_ptsz))
#define CROPDL_DRIVER(name) \
  (cropdl::one_abi::function_of<decltype(name)>(cropdl::cuda::kDriver, cropdl::seam::driver::kFn_##name))

// The same functions to pass on (RealFunction), and their numbers only (Maker).
#define CROPDL_CUDART_FUNCTION(name) \
  (cropdl::cuda::RealFunction<decltype(name)>{{cropdl::cuda::kCudart, cropdl::seam::cudart::kFn_##name}})
#define CROPDL_DRIVER_FUNCTION(name) \
  (cropdl::cuda::RealFunction<decltype(name)>{{cropdl::cuda::kDriver, cropdl::seam::driver::kFn_##name}})
#define CROPDL_CUDART_MAKER(name) \
  (cropdl::cuda::Maker{cropdl::cuda::kCudart, cropdl::seam::cudart::kFn_##name})
#define CROPDL_DRIVER_MAKER(name) \
  (cropdl::cuda::Maker{cropdl::cuda::kDriver, cropdl::seam::driver::kFn_##name})

// Defines, within extern "C", the functions that only call this body ([calls] of
// interpose/gen/one_abi/cuda.toml), with the RealFunction and their arguments.
#define CROPDL_CALLS(body) CROPDL_CALLS_cudart_##body CROPDL_CALLS_driver_##body
