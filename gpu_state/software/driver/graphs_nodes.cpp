// Nodes of graphs: made, asked, changed. Source: CUDA Driver API 13.0, "Graph Management".
#include <cuda.h>

#include <cstring>
#include <optional>

#include "gpu_state/software/device/context.h"
#include "gpu_state/software/device/device.h"
#include "gpu_state/software/device/graphs.h"
#include "gpu_state/software/device/graphs_memory.h"
#include "gpu_state/software/device/launch.h"
#include "gpu_state/software/driver/graphs_params.h"
#include "gpu_state/software/settings/settings.h"

using namespace cropdl;

namespace {

// Where a node is to go.
struct Place {
  CUgraph graph;
  const CUgraphNode* before;
  const CUgraphEdgeData* data;
  size_t count;
};

CUresult add(CUgraphNode* handle, const Place& place, device::Work work, CUcontext context) {
  std::lock_guard lock(device::capture_mutex());
  auto graph = device::find_graph(place.graph);
  if (!graph) return CUDA_ERROR_INVALID_VALUE;
  return device::add_node(*graph, place.before, place.data, place.count, std::move(work), context, handle);
}

CUresult add_child(CUgraphNode* handle, const Place& place, CUgraph child, bool move, CUcontext context) {
  std::lock_guard lock(device::capture_mutex());
  auto graph = device::find_graph(place.graph);
  if (!graph) return CUDA_ERROR_INVALID_VALUE;
  return device::add_child(*graph, place.before, place.data, place.count, child, move, context, handle);
}

// The pool's properties say where the memory is to be: on a device, as a pool that cannot be exported.
CUresult add_allocation(CUgraphNode* handle, const Place& place, CUDA_MEM_ALLOC_NODE_PARAMS* params,
                        CUcontext context) {
  if (params->poolProps.allocType != CU_MEM_ALLOCATION_TYPE_PINNED ||
      params->poolProps.handleTypes != CU_MEM_HANDLE_TYPE_NONE || params->bytesize == 0 ||
      (params->accessDescCount && !params->accessDescs))
    return CUDA_ERROR_INVALID_VALUE;
  if (params->poolProps.location.type != CU_MEM_LOCATION_TYPE_DEVICE) {
    settings::say_not_built("a graph's memory allocation that is not on a device");
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  for (size_t i = 0; i < params->accessDescCount; ++i)
    if (params->accessDescs[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
        params->accessDescs[i].location.id != params->poolProps.location.id) {
      settings::say_not_built("access of other devices to a graph's memory allocation");
      return CUDA_ERROR_NOT_SUPPORTED;
    }
  std::lock_guard lock(device::capture_mutex());
  auto graph = device::find_graph(place.graph);
  device::Device* device = device::find(params->poolProps.location.id);
  if (!graph || !device) return CUDA_ERROR_INVALID_VALUE;
  device->memory();  // is made on first use
  device::AllocateWork work;
  device::Reservation reservation;  // goes again if the node is refused
  if (CUresult error = device::reserve_allocation(graph->id, params->poolProps.location.id, params->bytesize,
                                                  &work, &reservation);
      error != CUDA_SUCCESS)
    return error;
  CUgraphNode made = nullptr;
  CUresult error = device::add_node(*graph, place.before, place.data, place.count, work, context, &made);
  if (error != CUDA_SUCCESS) return error;
  made->pool_properties = params->poolProps;
  made->accesses.assign(params->accessDescs, params->accessDescs + params->accessDescCount);
  params->dptr = work.address;
  *handle = made;
  return CUDA_SUCCESS;
}

CUresult add(CUgraphNode* handle, const Place& place, CUgraphNodeParams* params) {
  CUcontext context = nullptr;
  if (CUresult error = device::enter(&context); error != CUDA_SUCCESS) return error;
  if (!handle || !params) return CUDA_ERROR_INVALID_VALUE;
  if (params->type == CU_GRAPH_NODE_TYPE_GRAPH)
    return add_child(handle, place, params->graph.graph,
                     params->graph.ownership == CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE, context);
  if (params->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC) {
    auto* alloc = reinterpret_cast<CUDA_MEM_ALLOC_NODE_PARAMS*>(&params->alloc);  // v1 and v2 are the same
    return add_allocation(handle, place, alloc, context);
  }
  if (params->type == CU_GRAPH_NODE_TYPE_MEM_FREE)
    return add(handle, place, device::ReleaseWork{params->free.dptr, 0, {}}, context);
  device::Work work;
  if (CUresult error = driver::work_of(*params, &work, &context); error != CUDA_SUCCESS) return error;
  return add(handle, place, std::move(work), context);
}

// A kernel's attributes are set apart from the parameters.
void keep_attributes(device::Work* work, const device::Work& before) {
  auto* kernel = std::get_if<device::KernelWork>(work);
  auto* was = std::get_if<device::KernelWork>(&before);
  if (!kernel || !was) return;
  kernel->attributes = was->attributes;
  kernel->cooperative = was->cooperative;
}

// The parameters of a call; none if the caller gave none.
using Params = std::optional<CUgraphNodeParams>;

CUresult add(CUgraphNode* handle, CUgraph graph, const CUgraphNode* before, size_t count, Params params) {
  return params ? add(handle, {graph, before, nullptr, count}, &*params) : CUDA_ERROR_INVALID_VALUE;
}

CUresult change(CUgraphNode handle, const Params& to) {
  if (!to) return CUDA_ERROR_INVALID_VALUE;
  const CUgraphNodeParams& params = *to;
  CUcontext context = nullptr;
  if (CUresult error = device::enter(&context); error != CUDA_SUCCESS) return error;
  device::Work work;
  if (CUresult error = driver::work_of(params, &work, &context); error != CUDA_SUCCESS) return error;
  std::lock_guard lock(device::capture_mutex());
  auto node = device::find_node(handle);
  if (!node || device::type_of(node->work) != params.type || node->work.index() != work.index())
    return CUDA_ERROR_INVALID_VALUE;
  keep_attributes(&work, node->work);
  node->work = std::move(work);
  node->context = context;
  return CUDA_SUCCESS;
}

// `take` picks the answer out of the parameters.
template <class Answer, class Take>
CUresult ask(CUgraphNode handle, CUgraphNodeType type, Answer* to, Take take) {
  if (!to) return CUDA_ERROR_INVALID_VALUE;
  CUcontext context = nullptr;
  if (CUresult error = device::enter(&context); error != CUDA_SUCCESS) return error;
  std::lock_guard lock(device::capture_mutex());
  auto node = device::find_node(handle);
  if (!node) return CUDA_ERROR_INVALID_VALUE;
  CUgraphNodeParams params;
  CUresult error = driver::parameters_of(*node, type, &params);
  if (error == CUDA_SUCCESS) *to = take(params);
  return error;
}

CUgraphNodeParams params_of(CUgraphNodeType type) {
  CUgraphNodeParams params{};
  params.type = type;
  return params;
}

Params kernel_params(const CUDA_KERNEL_NODE_PARAMS* from) {
  if (!from) return std::nullopt;
  CUgraphNodeParams params = params_of(CU_GRAPH_NODE_TYPE_KERNEL);
  static_assert(sizeof params.kernel == sizeof *from);  // v2 and v3 are the same
  std::memcpy(&params.kernel, from, sizeof *from);
  return params;
}
Params memcpy_params(const CUDA_MEMCPY3D* from, CUcontext context) {
  if (!from) return std::nullopt;
  CUgraphNodeParams params = params_of(CU_GRAPH_NODE_TYPE_MEMCPY);
  params.memcpy.copyCtx = context;
  params.memcpy.copyParams = *from;
  return params;
}
Params memset_params(const CUDA_MEMSET_NODE_PARAMS* from, CUcontext context) {
  if (!from) return std::nullopt;
  CUgraphNodeParams params = params_of(CU_GRAPH_NODE_TYPE_MEMSET);
  params.memset = {from->dst,   from->pitch,  from->value, from->elementSize,
                   from->width, from->height, context};
  return params;
}
Params host_params(const CUDA_HOST_NODE_PARAMS* from) {
  if (!from) return std::nullopt;
  CUgraphNodeParams params = params_of(CU_GRAPH_NODE_TYPE_HOST);
  params.host = {from->fn, from->userData};
  return params;
}
Params event_params(CUgraphNodeType type, CUevent event) {
  CUgraphNodeParams params = params_of(type);
  if (type == CU_GRAPH_NODE_TYPE_EVENT_RECORD)
    params.eventRecord.event = event;
  else
    params.eventWait.event = event;
  return params;
}
Params values_params(const CUDA_BATCH_MEM_OP_NODE_PARAMS* from) {
  if (!from) return std::nullopt;
  CUgraphNodeParams params = params_of(CU_GRAPH_NODE_TYPE_BATCH_MEM_OP);
  params.memOp = {from->ctx, from->count, from->paramArray, from->flags};
  return params;
}
Params child_params(CUgraph child) {
  CUgraphNodeParams params = params_of(CU_GRAPH_NODE_TYPE_GRAPH);
  params.graph.graph = child;
  return params;
}

CUresult change_in_exec(CUgraphExec exec_handle, CUgraphNode node_handle, const Params& to) {
  if (!to) return CUDA_ERROR_INVALID_VALUE;
  const CUgraphNodeParams& params = *to;
  CUcontext context = nullptr;
  if (CUresult error = device::enter(&context); error != CUDA_SUCCESS) return error;
  if (params.type == CU_GRAPH_NODE_TYPE_GRAPH) {
    std::lock_guard lock(device::capture_mutex());
    auto exec = device::find_exec(exec_handle);
    auto node = device::find_node(node_handle);
    return exec && node ? device::set_child(*exec, *node, params.graph.graph) : CUDA_ERROR_INVALID_VALUE;
  }
  device::Work work;
  if (CUresult error = driver::work_of(params, &work, &context); error != CUDA_SUCCESS) return error;
  std::lock_guard lock(device::capture_mutex());
  auto exec = device::find_exec(exec_handle);
  auto node = device::find_node(node_handle);
  if (!exec || !node) return CUDA_ERROR_INVALID_VALUE;
  if (CUgraphNode own = device::own_node(*exec, *node)) keep_attributes(&work, own->work);
  return device::set_work(*exec, *node, std::move(work), context);
}

}  // namespace

extern "C" {

CUresult cuGraphAddNode_v2(CUgraphNode* node, CUgraph graph, const CUgraphNode* before,
                           const CUgraphEdgeData* data, size_t count, CUgraphNodeParams* params) {
  return add(node, {graph, before, data, count}, params);
}

CUresult cuGraphNodeSetParams(CUgraphNode node, CUgraphNodeParams* params) {
  return change(node, params ? Params(*params) : std::nullopt);
}

CUresult cuGraphExecNodeSetParams(CUgraphExec exec, CUgraphNode node, CUgraphNodeParams* params) {
  return change_in_exec(exec, node, params ? Params(*params) : std::nullopt);
}

CUresult cuGraphAddKernelNode_v2(CUgraphNode* node, CUgraph graph, const CUgraphNode* before, size_t count,
                                 const CUDA_KERNEL_NODE_PARAMS* from) {
  return add(node, graph, before, count, kernel_params(from));
}
CUresult cuGraphKernelNodeGetParams_v2(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS* to) {
  return ask(node, CU_GRAPH_NODE_TYPE_KERNEL, to, [](const CUgraphNodeParams& p) {
    CUDA_KERNEL_NODE_PARAMS answer;
    std::memcpy(&answer, &p.kernel, sizeof answer);
    return answer;
  });
}
CUresult cuGraphKernelNodeSetParams_v2(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS* from) {
  return change(node, kernel_params(from));
}
CUresult cuGraphExecKernelNodeSetParams_v2(CUgraphExec exec, CUgraphNode node,
                                           const CUDA_KERNEL_NODE_PARAMS* from) {
  return change_in_exec(exec, node, kernel_params(from));
}

CUresult cuGraphAddMemcpyNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* before, size_t count,
                              const CUDA_MEMCPY3D* from, CUcontext context) {
  return add(node, graph, before, count, memcpy_params(from, context));
}
CUresult cuGraphMemcpyNodeGetParams(CUgraphNode node, CUDA_MEMCPY3D* to) {
  return ask(node, CU_GRAPH_NODE_TYPE_MEMCPY, to,
             [](const CUgraphNodeParams& p) { return p.memcpy.copyParams; });
}
CUresult cuGraphMemcpyNodeSetParams(CUgraphNode node, const CUDA_MEMCPY3D* from) {
  return change(node, memcpy_params(from, nullptr));
}
CUresult cuGraphExecMemcpyNodeSetParams(CUgraphExec exec, CUgraphNode node, const CUDA_MEMCPY3D* from,
                                        CUcontext context) {
  return change_in_exec(exec, node, memcpy_params(from, context));
}

CUresult cuGraphAddMemsetNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* before, size_t count,
                              const CUDA_MEMSET_NODE_PARAMS* from, CUcontext context) {
  return add(node, graph, before, count, memset_params(from, context));
}
CUresult cuGraphMemsetNodeGetParams(CUgraphNode node, CUDA_MEMSET_NODE_PARAMS* to) {
  return ask(node, CU_GRAPH_NODE_TYPE_MEMSET, to, [](const CUgraphNodeParams& p) {
    return CUDA_MEMSET_NODE_PARAMS{p.memset.dst,         p.memset.pitch, p.memset.value,
                                   p.memset.elementSize, p.memset.width, p.memset.height};
  });
}
CUresult cuGraphMemsetNodeSetParams(CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS* from) {
  return change(node, memset_params(from, nullptr));
}
CUresult cuGraphExecMemsetNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                        const CUDA_MEMSET_NODE_PARAMS* from, CUcontext context) {
  return change_in_exec(exec, node, memset_params(from, context));
}

CUresult cuGraphAddHostNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* before, size_t count,
                            const CUDA_HOST_NODE_PARAMS* from) {
  return add(node, graph, before, count, host_params(from));
}
CUresult cuGraphHostNodeGetParams(CUgraphNode node, CUDA_HOST_NODE_PARAMS* to) {
  return ask(node, CU_GRAPH_NODE_TYPE_HOST, to, [](const CUgraphNodeParams& p) {
    return CUDA_HOST_NODE_PARAMS{p.host.fn, p.host.userData};
  });
}
CUresult cuGraphHostNodeSetParams(CUgraphNode node, const CUDA_HOST_NODE_PARAMS* from) {
  return change(node, host_params(from));
}
CUresult cuGraphExecHostNodeSetParams(CUgraphExec exec, CUgraphNode node, const CUDA_HOST_NODE_PARAMS* from) {
  return change_in_exec(exec, node, host_params(from));
}

CUresult cuGraphAddChildGraphNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* before, size_t count,
                                  CUgraph child) {
  return add(node, graph, before, count, child_params(child));
}
CUresult cuGraphChildGraphNodeGetGraph(CUgraphNode node, CUgraph* graph) {
  return ask(node, CU_GRAPH_NODE_TYPE_GRAPH, graph, [](const CUgraphNodeParams& p) { return p.graph.graph; });
}
CUresult cuGraphExecChildGraphNodeSetParams(CUgraphExec exec, CUgraphNode node, CUgraph child) {
  return change_in_exec(exec, node, child_params(child));
}

CUresult cuGraphAddEmptyNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* before, size_t count) {
  return add(node, graph, before, count, params_of(CU_GRAPH_NODE_TYPE_EMPTY));
}

CUresult cuGraphAddEventRecordNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* before, size_t count,
                                   CUevent event) {
  return add(node, graph, before, count, event_params(CU_GRAPH_NODE_TYPE_EVENT_RECORD, event));
}
CUresult cuGraphEventRecordNodeGetEvent(CUgraphNode node, CUevent* event) {
  return ask(node, CU_GRAPH_NODE_TYPE_EVENT_RECORD, event,
             [](const CUgraphNodeParams& p) { return p.eventRecord.event; });
}
CUresult cuGraphEventRecordNodeSetEvent(CUgraphNode node, CUevent event) {
  return change(node, event_params(CU_GRAPH_NODE_TYPE_EVENT_RECORD, event));
}
CUresult cuGraphExecEventRecordNodeSetEvent(CUgraphExec exec, CUgraphNode node, CUevent event) {
  return change_in_exec(exec, node, event_params(CU_GRAPH_NODE_TYPE_EVENT_RECORD, event));
}

CUresult cuGraphAddEventWaitNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* before, size_t count,
                                 CUevent event) {
  return add(node, graph, before, count, event_params(CU_GRAPH_NODE_TYPE_WAIT_EVENT, event));
}
CUresult cuGraphEventWaitNodeGetEvent(CUgraphNode node, CUevent* event) {
  return ask(node, CU_GRAPH_NODE_TYPE_WAIT_EVENT, event,
             [](const CUgraphNodeParams& p) { return p.eventWait.event; });
}
CUresult cuGraphEventWaitNodeSetEvent(CUgraphNode node, CUevent event) {
  return change(node, event_params(CU_GRAPH_NODE_TYPE_WAIT_EVENT, event));
}
CUresult cuGraphExecEventWaitNodeSetEvent(CUgraphExec exec, CUgraphNode node, CUevent event) {
  return change_in_exec(exec, node, event_params(CU_GRAPH_NODE_TYPE_WAIT_EVENT, event));
}

CUresult cuGraphAddBatchMemOpNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* before, size_t count,
                                  const CUDA_BATCH_MEM_OP_NODE_PARAMS* from) {
  return add(node, graph, before, count, values_params(from));
}
CUresult cuGraphBatchMemOpNodeGetParams(CUgraphNode node, CUDA_BATCH_MEM_OP_NODE_PARAMS* to) {
  return ask(node, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, to, [](const CUgraphNodeParams& p) {
    return CUDA_BATCH_MEM_OP_NODE_PARAMS{p.memOp.ctx, p.memOp.count, p.memOp.paramArray, p.memOp.flags};
  });
}
CUresult cuGraphBatchMemOpNodeSetParams(CUgraphNode node, const CUDA_BATCH_MEM_OP_NODE_PARAMS* from) {
  return change(node, values_params(from));
}
CUresult cuGraphExecBatchMemOpNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                            const CUDA_BATCH_MEM_OP_NODE_PARAMS* from) {
  return change_in_exec(exec, node, values_params(from));
}

CUresult cuGraphAddMemAllocNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* before, size_t count,
                                CUDA_MEM_ALLOC_NODE_PARAMS* from) {
  CUcontext context = nullptr;
  if (CUresult error = device::enter(&context); error != CUDA_SUCCESS) return error;
  if (!node || !from) return CUDA_ERROR_INVALID_VALUE;
  return add_allocation(node, {graph, before, nullptr, count}, from, context);
}
CUresult cuGraphMemAllocNodeGetParams(CUgraphNode node, CUDA_MEM_ALLOC_NODE_PARAMS* to) {
  return ask(node, CU_GRAPH_NODE_TYPE_MEM_ALLOC, to, [](const CUgraphNodeParams& p) {
    return CUDA_MEM_ALLOC_NODE_PARAMS{p.alloc.poolProps, p.alloc.accessDescs, p.alloc.accessDescCount,
                                      p.alloc.bytesize, p.alloc.dptr};
  });
}
CUresult cuGraphAddMemFreeNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* before, size_t count,
                               CUdeviceptr address) {
  CUgraphNodeParams params = params_of(CU_GRAPH_NODE_TYPE_MEM_FREE);
  params.free.dptr = address;
  return add(node, graph, before, count, params);
}
CUresult cuGraphMemFreeNodeGetParams(CUgraphNode node, CUdeviceptr* address) {
  return ask(node, CU_GRAPH_NODE_TYPE_MEM_FREE, address,
             [](const CUgraphNodeParams& p) { return p.free.dptr; });
}

}  // extern "C"
