// Launches with attributes (handles of streams and events); occupancy. LH, LH FS base, any thread.
#include <utility>
#include <vector>

#include "interpose/cuda/lower/launch_attributes.h"
#include "interpose/cuda/lower/real.h"
#include "interpose/seam/thread.h"

using namespace cropdl::cuda;

namespace {

// A graph node that kernels update: the launch writes its handle, which kernels read.
bool is_updatable(const CUlaunchAttribute& a) {
  return a.id == CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE &&
         a.value.deviceUpdatableKernelNode.deviceUpdatable;
}

class Attributes {
 public:
  Attributes(const void* from, unsigned n) {
    if (!from) return;
    const auto* first = static_cast<const CUlaunchAttribute*>(from);
    theirs_.assign(first, first + n);
    for (CUlaunchAttribute& a : theirs_) {
      if (CUevent* event = event_in(a.id, a.value)) {
        events_.push_back(rt::word_of(*event));
        *event = rt::real(*event, kind::cudaEvent);
      }
      offered_ = offered_ && !is_updatable(a);
    }
  }
  bool offered() const { return offered_; }
  CUlaunchAttribute* data() { return theirs_.data(); }
  void recorded() const {
    for (uint64_t event : events_) rt::mark_object(event, rt::kTouched);
  }

 private:
  std::vector<CUlaunchAttribute> theirs_;
  std::vector<uint64_t> events_;
  bool offered_ = true;
};

constexpr char kUpdatable[] = "kernels read the handle of a node that they update";

CUstream* stream_of(cudaLaunchConfig_t& config) { return &config.stream; }
CUstream* stream_of(CUlaunchConfig& config) { return &config.hStream; }

// `ask`: calls the real function `of` with a configuration that has real handles.
template <class Config, class Ask>
auto with_config(Maker of, const Config* config, Ask ask) {
  using Result = decltype(ask(config));
  if (!config) return ask(nullptr);
  Attributes attributes(config->attrs, config->numAttrs);
  if (!attributes.offered()) {
    rt::say_not_offered(of.library.names[of.function], kUpdatable);
    return static_cast<Result>(CUDA_ERROR_NOT_SUPPORTED);
  }
  Config mine = *config;
  *stream_of(mine) = rt::real(*stream_of(mine), kind::cudaStream);
  if (mine.attrs) mine.attrs = reinterpret_cast<decltype(mine.attrs)>(attributes.data());
  const Result r = ask(&mine);
  if (static_cast<int>(r) == CUDA_SUCCESS) attributes.recorded();
  return r;
}

// What is launched: the runtime's stub or kernel, or the driver's function.
const void* real_code(const void* kernel) { return rt::real(kernel, kind::cudaKernel); }
CUfunction real_code(CUfunction function) { return rt::real(function, kind::cudaFunction); }

template <class F, class Config, class Code, class... More>
auto launch_with_attributes(RealFunction<F> of, const Config* config, Code code, More... more) {
  rt::Call call;
  rt::use_code(code);
  return with_config(of, config, [&](const Config* mine) { return of(mine, real_code(code), more...); });
}
template <class F, class Config, class Code>
auto occupancy(RealFunction<F> of, int* result, Code code, const Config* config) {
  rt::Call call;
  if constexpr (std::is_same_v<Code, const void*>) rt::use_code(code);
  return with_config(of, config, [&](const Config* mine) { return of(result, real_code(code), mine); });
}

// --- cuOccupancyMaxPotentialBlockSize: the driver calls a function of the program, on the calling thread,
// for the shared memory that a block of each size needs.

// The driver's callback has no data argument.
thread_local CUoccupancyB2DSize asked = nullptr;

size_t ask(int block) { return cropdl::seam::call_upper(asked, block); }

// `more`: what the function gets after the callback.
template <class F, class... More>
CUresult block_size(RealFunction<F> find, int* grid, int* block, CUfunction function, CUoccupancyB2DSize size,
                    More... more) {
  rt::Call call;
  const CUoccupancyB2DSize before = std::exchange(asked, size);
  const CUresult r = find(grid, block, rt::real(function, kind::cudaFunction), size ? ask : nullptr, more...);
  asked = before;
  return r;
}

}  // namespace

extern "C" {

CROPDL_CALLS(launch_with_attributes)
CROPDL_CALLS(occupancy)
CROPDL_CALLS(block_size)

CUresult lower_cuLaunchCooperativeKernelMultiDevice(CUDA_LAUNCH_PARAMS* launches, unsigned n,
                                                    unsigned flags) {
  rt::Call call;
  std::vector<CUDA_LAUNCH_PARAMS> mine;
  if (launches) mine.assign(launches, launches + n);
  for (CUDA_LAUNCH_PARAMS& launch : mine) {
    launch.function = rt::real(launch.function, kind::cudaFunction);
    launch.hStream = rt::real(launch.hStream, kind::cudaStream);
  }
  return CROPDL_DRIVER(cuLaunchCooperativeKernelMultiDevice)(launches ? mine.data() : nullptr, n, flags);
}

}  // extern "C"
