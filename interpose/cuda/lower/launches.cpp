// Launches with attributes. Attributes contain handles: of the stream, and of events that the launch records.
// LH, LH FS base, any thread.
#include <vector>

#include "interpose/cuda/lower/launch_attributes.h"
#include "interpose/cuda/lower/real.h"
#include "interpose/one_abi/kinds.h"

namespace rt = cropdl::one_abi;
namespace kind = rt::kind;

namespace cropdl::cuda {
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

// `call`: calls the real function with a configuration that has real handles.
template <class Config, class Call>
auto with_config(const char* name, const Config* config, Call call) {
  using Result = decltype(call(config));
  if (!config) return call(nullptr);
  Attributes attributes(config->attrs, config->numAttrs);
  if (!attributes.offered()) {
    rt::say_not_offered(name, kUpdatable);
    return static_cast<Result>(CUDA_ERROR_NOT_SUPPORTED);
  }
  Config mine = *config;
  *stream_of(mine) = rt::real(*stream_of(mine), kind::cudaStream);
  if (mine.attrs) mine.attrs = reinterpret_cast<decltype(mine.attrs)>(attributes.data());
  const Result r = call(&mine);
  if (static_cast<int>(r) == CUDA_SUCCESS) attributes.recorded();
  return r;
}

}  // namespace
}  // namespace cropdl::cuda

using namespace cropdl::cuda;

extern "C" {

cudaError_t lower_cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* func, void** args) {
  rt::Call call;
  rt::use_code(func);
  return with_config("cudaLaunchKernelExC", config, [&](const cudaLaunchConfig_t* mine) {
    return CROPDL_CUDART(cudaLaunchKernelExC)(mine, rt::real(func, kind::cudaKernel), args);
  });
}
cudaError_t lower_cudaLaunchKernelExC_ptsz(const cudaLaunchConfig_t* config, const void* func, void** args) {
  rt::Call call;
  rt::use_code(func);
  return with_config("cudaLaunchKernelExC_ptsz", config, [&](const cudaLaunchConfig_t* mine) {
    return CROPDL_CUDART_PTSZ(cudaLaunchKernelExC)(mine, rt::real(func, kind::cudaKernel), args);
  });
}
cudaError_t lower_cudaOccupancyMaxPotentialClusterSize(int* size, const void* func,
                                                       const cudaLaunchConfig_t* config) {
  rt::Call call;
  rt::use_code(func);
  return with_config("cudaOccupancyMaxPotentialClusterSize", config, [&](const cudaLaunchConfig_t* mine) {
    return CROPDL_CUDART(cudaOccupancyMaxPotentialClusterSize)(size, rt::real(func, kind::cudaKernel), mine);
  });
}
cudaError_t lower_cudaOccupancyMaxActiveClusters(int* n, const void* func, const cudaLaunchConfig_t* config) {
  rt::Call call;
  rt::use_code(func);
  return with_config("cudaOccupancyMaxActiveClusters", config, [&](const cudaLaunchConfig_t* mine) {
    return CROPDL_CUDART(cudaOccupancyMaxActiveClusters)(n, rt::real(func, kind::cudaKernel), mine);
  });
}

CUresult lower_cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction f, void** parameters, void** extra) {
  rt::Call call;
  rt::use_code(f);
  return with_config("cuLaunchKernelEx", config, [&](const CUlaunchConfig* mine) {
    return CROPDL_DRIVER(cuLaunchKernelEx)(mine, rt::real(f, kind::cudaFunction), parameters, extra);
  });
}
CUresult lower_cuLaunchKernelEx_ptsz(const CUlaunchConfig* config, CUfunction f, void** parameters,
                                     void** extra) {
  rt::Call call;
  rt::use_code(f);
  return with_config("cuLaunchKernelEx_ptsz", config, [&](const CUlaunchConfig* mine) {
    return CROPDL_DRIVER(cuLaunchKernelEx_ptsz)(mine, rt::real(f, kind::cudaFunction), parameters, extra);
  });
}
CUresult lower_cuOccupancyMaxPotentialClusterSize(int* size, CUfunction f, const CUlaunchConfig* config) {
  rt::Call call;
  return with_config("cuOccupancyMaxPotentialClusterSize", config, [&](const CUlaunchConfig* mine) {
    return CROPDL_DRIVER(cuOccupancyMaxPotentialClusterSize)(size, rt::real(f, kind::cudaFunction), mine);
  });
}
CUresult lower_cuOccupancyMaxActiveClusters(int* n, CUfunction f, const CUlaunchConfig* config) {
  rt::Call call;
  return with_config("cuOccupancyMaxActiveClusters", config, [&](const CUlaunchConfig* mine) {
    return CROPDL_DRIVER(cuOccupancyMaxActiveClusters)(n, rt::real(f, kind::cudaFunction), mine);
  });
}

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
