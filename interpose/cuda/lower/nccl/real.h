// The real NCCL, and how hand-written code calls it. LH, LH FS base.
#pragma once

#include <nccl.h>

#include "interpose/one_abi/held.h"
#include "interpose/one_abi/kinds.h"
#include "interpose/one_abi/lower.h"
#include "nccl_functions.h"

extern const cropdl::one_abi::RealLibrary cropdl_nccl_lower_table_library;

namespace cropdl::cuda::nccl {

inline constexpr const one_abi::RealLibrary& kNccl = cropdl_nccl_lower_table_library;
inline constexpr auto kAgain = static_cast<ncclResult_t>(one_abi::kCallAgain);

// The call has begun. A non-blocking communicator continues it in the background.
inline bool went_on(ncclResult_t r) { return r == ncclSuccess || r == ncclInProgress; }

}  // namespace cropdl::cuda::nccl

// The real function of that name: CROPDL_NCCL(ncclSend)(...).
#define CROPDL_NCCL(name) \
  (cropdl::one_abi::function_of<decltype(name)>(cropdl::cuda::nccl::kNccl, cropdl::seam::nccl::kFn_##name))
