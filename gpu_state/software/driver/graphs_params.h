// Converts node parameters of the API to graph work and back, for each kind of node.
#pragma once

#include <cuda.h>

#include "gpu_state/software/device/graphs.h"

namespace cropdl::driver {

// Checks the parameters like the corresponding call. `context` is the current one and becomes the node's. Not
// for child graphs. CUDA_ERROR_NOT_SUPPORTED: unsupported node, named on stderr.
CUresult work_of(const CUgraphNodeParams& parameters, device::Work* work, CUcontext* context);

// The result of cuGraph…NodeGetParams. Its pointers belong to the node and are valid until the next query or
// change. CUDA_ERROR_INVALID_VALUE: another kind of node. With capture_mutex().
CUresult parameters_of(CUgraphNode_st& node, CUgraphNodeType type, CUgraphNodeParams* parameters);

}  // namespace cropdl::driver
