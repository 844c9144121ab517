// Nodes' parameters as the API has them, and the work that they are. Both directions for each kind of node.
#pragma once

#include <cuda.h>

#include "gpu_state/software/device/graphs.h"

namespace cropdl::driver {

// Parameters checked as of the call that they would be. `context` is the current one, and becomes the
// node's. Not for child graphs. CUDA_ERROR_NOT_SUPPORTED: no such nodes here, named on stderr.
CUresult work_of(const CUgraphNodeParams& parameters, device::Work* work, CUcontext* context);

// What cuGraph…NodeGetParams answers; pointers in it are the node's, until it is asked again or changed.
// CUDA_ERROR_INVALID_VALUE: another kind of node. With capture_mutex().
CUresult parameters_of(CUgraphNode_st& node, CUgraphNodeType type, CUgraphNodeParams* parameters);

}  // namespace cropdl::driver
