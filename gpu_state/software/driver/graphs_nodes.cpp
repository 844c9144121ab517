// Graph nodes: creation, queries, changes. Source: CUDA Driver API 13.0, "Graph Management".
#include <cuda.h>

#include <cstring>

#include "gpu_state/software/device/context.h"
#include "gpu_state/software/device/device.h"
#include "gpu_state/software/device/graphs.h"
#include "gpu_state/software/device/graphs_memory.h"
#include "gpu_state/software/device/launch.h"
#include "gpu_state/software/driver/graphs_params.h"
#include "gpu_state/software/settings/settings.h"

using namespace cropdl;

namespace {

// Where a node is added.
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

// The pool properties must name a device, and a pool that cannot be exported.
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
  device->memory();  // made on first use
  device::AllocateWork work;
  device::Reservation reservation;  // released if the node is refused
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

CUresult add_free(CUgraphNode* handle, const Place& place, CUdeviceptr address, CUcontext context) {
  std::lock_guard lock(device::capture_mutex());
  auto graph = device::find_graph(place.graph);
  if (!graph) return CUDA_ERROR_INVALID_VALUE;
  return device::add_node(*graph, place.before, place.data, place.count, device::ReleaseWork{address, 0, {}},
                          context, handle);
}

CUresult add(CUgraphNode* handle, const Place& place, CUgraphNodeParams* params) {
  CUcontext context = nullptr;
  if (CUresult error = device::enter(&context); error != CUDA_SUCCESS) return error;
  if (!handle || !params) return CUDA_ERROR_INVALID_VALUE;
  if (params->type == CU_GRAPH_NODE_TYPE_GRAPH)
    return add_child(handle, place, params->graph.graph,
                     params->graph.ownership == CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE, context);
  if (params->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC) {
    // versions 1 and 2 are equal
    auto* alloc = reinterpret_cast<CUDA_MEM_ALLOC_NODE_PARAMS*>(&params->alloc);
    return add_allocation(handle, place, alloc, context);
  }
  if (params->type == CU_GRAPH_NODE_TYPE_MEM_FREE) return add_free(handle, place, params->free.dptr, context);
  device::Work work;
  if (CUresult error = driver::work_of(*params, &work, &context); error != CUDA_SUCCESS) return error;
  return add(handle, place, std::move(work), context);
}

CUresult change(CUgraphNode handle, const CUgraphNodeParams& params) {
  CUcontext context = nullptr;
  if (CUresult error = device::enter(&context); error != CUDA_SUCCESS) return error;
  device::Work work;
  if (CUresult error = driver::work_of(params, &work, &context); error != CUDA_SUCCESS) return error;
  std::lock_guard lock(device::capture_mutex());
  auto node = device::find_node(handle);
  if (!node || device::type_of(node->work) != params.type || node->work.index() != work.index())
    return CUDA_ERROR_INVALID_VALUE;
  if (auto* kernel = std::get_if<device::KernelWork>(&work)) {
    // Attributes are set separately from parameters.
    const auto& before = std::get<device::KernelWork>(node->work);
    kernel->attributes = before.attributes;
    kernel->cooperative = before.cooperative;
  }
  node->work = std::move(work);
  node->context = context;
  return CUDA_SUCCESS;
}

CUresult ask(CUgraphNode handle, CUgraphNodeType type, CUgraphNodeParams* params) {
  CUcontext context = nullptr;
  if (CUresult error = device::enter(&context); error != CUDA_SUCCESS) return error;
  std::lock_guard lock(device::capture_mutex());
  auto node = device::find_node(handle);
  return node ? driver::parameters_of(*node, type, params) : CUDA_ERROR_INVALID_VALUE;
}

CUgraphNodeParams params_of(CUgraphNodeType type) {
  CUgraphNodeParams params{};
  params.type = type;
  return params;
}

CUgraphNodeParams kernel_params(const CUDA_KERNEL_NODE_PARAMS* from) {
  CUgraphNodeParams params = params_of(CU_GRAPH_NODE_TYPE_KERNEL);
  static_assert(sizeof params.kernel == sizeof *from);  // versions 2 and 3 are equal
  std::memcpy(&params.kernel, from, sizeof *from);
  return params;
}
CUgraphNodeParams memcpy_params(const CUDA_MEMCPY3D* from, CUcontext context) {
  CUgraphNodeParams params = params_of(CU_GRAPH_NODE_TYPE_MEMCPY);
  params.memcpy.copyCtx = context;
  params.memcpy.copyParams = *from;
  return params;
}
CUgraphNodeParams memset_params(const CUDA_MEMSET_NODE_PARAMS* from, CUcontext context) {
  CUgraphNodeParams params = params_of(CU_GRAPH_NODE_TYPE_MEMSET);
  params.memset = {from->dst,   from->pitch,  from->value, from->elementSize,
                   from->width, from->height, context};
  return params;
}
CUgraphNodeParams host_params(const CUDA_HOST_NODE_PARAMS* from) {
  CUgraphNodeParams params = params_of(CU_GRAPH_NODE_TYPE_HOST);
  params.host = {from->fn, from->userData};
  return params;
}
CUgraphNodeParams event_params(CUgraphNodeType type, CUevent event) {
  CUgraphNodeParams params = params_of(type);
  if (type == CU_GRAPH_NODE_TYPE_EVENT_RECORD)
    params.eventRecord.event = event;
  else
    params.eventWait.event = event;
  return params;
}
CUgraphNodeParams values_params(const CUDA_BATCH_MEM_OP_NODE_PARAMS* from) {
  CUgraphNodeParams params = params_of(CU_GRAPH_NODE_TYPE_BATCH_MEM_OP);
  params.memOp = {from->ctx, from->count, from->paramArray, from->flags};
  return params;
}

CUresult change_in_exec(CUgraphExec exec_handle, CUgraphNode node_handle, const CUgraphNodeParams& params) {
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
  if (auto* kernel = std::get_if<device::KernelWork>(&work))
    if (CUgraphNode own = device::own_node(*exec, *node))
      if (auto* before = std::get_if<device::KernelWork>(&own->work)) {
        kernel->attributes = before->attributes;
        kernel->cooperative = before->cooperative;
      }
  return device::set_work(*exec, *node, std::move(work), context);
}

}  // namespace

extern "C" {

CUresult cuGraphAddNode_v2(CUgraphNode* node, CUgraph graph, const CUgraphNode* before,
                           const CUgraphEdgeData* data, size_t count, CUgraphNodeParams* params) {
  return add(node, {graph, before, data, count}, params);
}

CUresult cuGraphNodeSetParams(CUgraphNode node, CUgraphNodeParams* params) {
  return params ? change(node, *params) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphExecNodeSetParams(CUgraphExec exec, CUgraphNode node, CUgraphNodeParams* params) {
  return params ? change_in_exec(exec, node, *params) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphAddKernelNode_v2(CUgraphNode* node, CUgraph graph, const CUgraphNode* before, size_t count,
                                 const CUDA_KERNEL_NODE_PARAMS* from) {
  if (!from) return CUDA_ERROR_INVALID_VALUE;
  CUgraphNodeParams params = kernel_params(from);
  return add(node, {graph, before, nullptr, count}, &params);
}
CUresult cuGraphKernelNodeGetParams_v2(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS* to) {
  if (!to) return CUDA_ERROR_INVALID_VALUE;
  CUgraphNodeParams params;
  CUresult error = ask(node, CU_GRAPH_NODE_TYPE_KERNEL, &params);
  if (error == CUDA_SUCCESS) std::memcpy(to, &params.kernel, sizeof *to);
  return error;
}
CUresult cuGraphKernelNodeSetParams_v2(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS* from) {
  return from ? change(node, kernel_params(from)) : CUDA_ERROR_INVALID_VALUE;
}
CUresult cuGraphExecKernelNodeSetParams_v2(CUgraphExec exec, CUgraphNode node,
                                           const CUDA_KERNEL_NODE_PARAMS* from) {
  return from ? change_in_exec(exec, node, kernel_params(from)) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphAddMemcpyNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* before, size_t count,
                              const CUDA_MEMCPY3D* from, CUcontext context) {
  if (!from) return CUDA_ERROR_INVALID_VALUE;
  CUgraphNodeParams params = memcpy_params(from, context);
  return add(node, {graph, before, nullptr, count}, &params);
}
CUresult cuGraphMemcpyNodeGetParams(CUgraphNode node, CUDA_MEMCPY3D* to) {
  if (!to) return CUDA_ERROR_INVALID_VALUE;
  CUgraphNodeParams params;
  CUresult error = ask(node, CU_GRAPH_NODE_TYPE_MEMCPY, &params);
  if (error == CUDA_SUCCESS) *to = params.memcpy.copyParams;
  return error;
}
CUresult cuGraphMemcpyNodeSetParams(CUgraphNode node, const CUDA_MEMCPY3D* from) {
  return from ? change(node, memcpy_params(from, nullptr)) : CUDA_ERROR_INVALID_VALUE;
}
CUresult cuGraphExecMemcpyNodeSetParams(CUgraphExec exec, CUgraphNode node, const CUDA_MEMCPY3D* from,
                                        CUcontext context) {
  return from ? change_in_exec(exec, node, memcpy_params(from, context)) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphAddMemsetNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* before, size_t count,
                              const CUDA_MEMSET_NODE_PARAMS* from, CUcontext context) {
  if (!from) return CUDA_ERROR_INVALID_VALUE;
  CUgraphNodeParams params = memset_params(from, context);
  return add(node, {graph, before, nullptr, count}, &params);
}
CUresult cuGraphMemsetNodeGetParams(CUgraphNode node, CUDA_MEMSET_NODE_PARAMS* to) {
  if (!to) return CUDA_ERROR_INVALID_VALUE;
  CUgraphNodeParams params;
  CUresult error = ask(node, CU_GRAPH_NODE_TYPE_MEMSET, &params);
  if (error == CUDA_SUCCESS)
    *to = {params.memset.dst,         params.memset.pitch, params.memset.value,
           params.memset.elementSize, params.memset.width, params.memset.height};
  return error;
}
CUresult cuGraphMemsetNodeSetParams(CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS* from) {
  return from ? change(node, memset_params(from, nullptr)) : CUDA_ERROR_INVALID_VALUE;
}
CUresult cuGraphExecMemsetNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                        const CUDA_MEMSET_NODE_PARAMS* from, CUcontext context) {
  return from ? change_in_exec(exec, node, memset_params(from, context)) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphAddHostNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* before, size_t count,
                            const CUDA_HOST_NODE_PARAMS* from) {
  if (!from) return CUDA_ERROR_INVALID_VALUE;
  CUgraphNodeParams params = host_params(from);
  return add(node, {graph, before, nullptr, count}, &params);
}
CUresult cuGraphHostNodeGetParams(CUgraphNode node, CUDA_HOST_NODE_PARAMS* to) {
  if (!to) return CUDA_ERROR_INVALID_VALUE;
  CUgraphNodeParams params;
  CUresult error = ask(node, CU_GRAPH_NODE_TYPE_HOST, &params);
  if (error == CUDA_SUCCESS) *to = {params.host.fn, params.host.userData};
  return error;
}
CUresult cuGraphHostNodeSetParams(CUgraphNode node, const CUDA_HOST_NODE_PARAMS* from) {
  return from ? change(node, host_params(from)) : CUDA_ERROR_INVALID_VALUE;
}
CUresult cuGraphExecHostNodeSetParams(CUgraphExec exec, CUgraphNode node, const CUDA_HOST_NODE_PARAMS* from) {
  return from ? change_in_exec(exec, node, host_params(from)) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphAddChildGraphNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* before, size_t count,
                                  CUgraph child) {
  CUgraphNodeParams params = params_of(CU_GRAPH_NODE_TYPE_GRAPH);
  params.graph.graph = child;
  return add(node, {graph, before, nullptr, count}, &params);
}
CUresult cuGraphChildGraphNodeGetGraph(CUgraphNode node, CUgraph* graph) {
  if (!graph) return CUDA_ERROR_INVALID_VALUE;
  CUgraphNodeParams params;
  CUresult error = ask(node, CU_GRAPH_NODE_TYPE_GRAPH, &params);
  if (error == CUDA_SUCCESS) *graph = params.graph.graph;
  return error;
}
CUresult cuGraphExecChildGraphNodeSetParams(CUgraphExec exec, CUgraphNode node, CUgraph child) {
  CUgraphNodeParams params = params_of(CU_GRAPH_NODE_TYPE_GRAPH);
  params.graph.graph = child;
  return change_in_exec(exec, node, params);
}

CUresult cuGraphAddEmptyNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* before, size_t count) {
  CUgraphNodeParams params = params_of(CU_GRAPH_NODE_TYPE_EMPTY);
  return add(node, {graph, before, nullptr, count}, &params);
}

CUresult cuGraphAddEventRecordNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* before, size_t count,
                                   CUevent event) {
  CUgraphNodeParams params = event_params(CU_GRAPH_NODE_TYPE_EVENT_RECORD, event);
  return add(node, {graph, before, nullptr, count}, &params);
}
CUresult cuGraphEventRecordNodeGetEvent(CUgraphNode node, CUevent* event) {
  if (!event) return CUDA_ERROR_INVALID_VALUE;
  CUgraphNodeParams params;
  CUresult error = ask(node, CU_GRAPH_NODE_TYPE_EVENT_RECORD, &params);
  if (error == CUDA_SUCCESS) *event = params.eventRecord.event;
  return error;
}
CUresult cuGraphEventRecordNodeSetEvent(CUgraphNode node, CUevent event) {
  return change(node, event_params(CU_GRAPH_NODE_TYPE_EVENT_RECORD, event));
}
CUresult cuGraphExecEventRecordNodeSetEvent(CUgraphExec exec, CUgraphNode node, CUevent event) {
  return change_in_exec(exec, node, event_params(CU_GRAPH_NODE_TYPE_EVENT_RECORD, event));
}

CUresult cuGraphAddEventWaitNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* before, size_t count,
                                 CUevent event) {
  CUgraphNodeParams params = event_params(CU_GRAPH_NODE_TYPE_WAIT_EVENT, event);
  return add(node, {graph, before, nullptr, count}, &params);
}
CUresult cuGraphEventWaitNodeGetEvent(CUgraphNode node, CUevent* event) {
  if (!event) return CUDA_ERROR_INVALID_VALUE;
  CUgraphNodeParams params;
  CUresult error = ask(node, CU_GRAPH_NODE_TYPE_WAIT_EVENT, &params);
  if (error == CUDA_SUCCESS) *event = params.eventWait.event;
  return error;
}
CUresult cuGraphEventWaitNodeSetEvent(CUgraphNode node, CUevent event) {
  return change(node, event_params(CU_GRAPH_NODE_TYPE_WAIT_EVENT, event));
}
CUresult cuGraphExecEventWaitNodeSetEvent(CUgraphExec exec, CUgraphNode node, CUevent event) {
  return change_in_exec(exec, node, event_params(CU_GRAPH_NODE_TYPE_WAIT_EVENT, event));
}

CUresult cuGraphAddBatchMemOpNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* before, size_t count,
                                  const CUDA_BATCH_MEM_OP_NODE_PARAMS* from) {
  if (!from) return CUDA_ERROR_INVALID_VALUE;
  CUgraphNodeParams params = values_params(from);
  return add(node, {graph, before, nullptr, count}, &params);
}
CUresult cuGraphBatchMemOpNodeGetParams(CUgraphNode node, CUDA_BATCH_MEM_OP_NODE_PARAMS* to) {
  if (!to) return CUDA_ERROR_INVALID_VALUE;
  CUgraphNodeParams params;
  CUresult error = ask(node, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, &params);
  if (error == CUDA_SUCCESS)
    *to = {params.memOp.ctx, params.memOp.count, params.memOp.paramArray, params.memOp.flags};
  return error;
}
CUresult cuGraphBatchMemOpNodeSetParams(CUgraphNode node, const CUDA_BATCH_MEM_OP_NODE_PARAMS* from) {
  return from ? change(node, values_params(from)) : CUDA_ERROR_INVALID_VALUE;
}
CUresult cuGraphExecBatchMemOpNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                            const CUDA_BATCH_MEM_OP_NODE_PARAMS* from) {
  return from ? change_in_exec(exec, node, values_params(from)) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphAddMemAllocNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* before, size_t count,
                                CUDA_MEM_ALLOC_NODE_PARAMS* from) {
  CUcontext context = nullptr;
  if (CUresult error = device::enter(&context); error != CUDA_SUCCESS) return error;
  if (!node || !from) return CUDA_ERROR_INVALID_VALUE;
  return add_allocation(node, {graph, before, nullptr, count}, from, context);
}
CUresult cuGraphMemAllocNodeGetParams(CUgraphNode node, CUDA_MEM_ALLOC_NODE_PARAMS* to) {
  if (!to) return CUDA_ERROR_INVALID_VALUE;
  CUgraphNodeParams params;
  CUresult error = ask(node, CU_GRAPH_NODE_TYPE_MEM_ALLOC, &params);
  if (error == CUDA_SUCCESS)
    *to = {params.alloc.poolProps, params.alloc.accessDescs, params.alloc.accessDescCount,
           params.alloc.bytesize, params.alloc.dptr};
  return error;
}
CUresult cuGraphAddMemFreeNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* before, size_t count,
                               CUdeviceptr address) {
  CUgraphNodeParams params = params_of(CU_GRAPH_NODE_TYPE_MEM_FREE);
  params.free.dptr = address;
  return add(node, {graph, before, nullptr, count}, &params);
}
CUresult cuGraphMemFreeNodeGetParams(CUgraphNode node, CUdeviceptr* address) {
  if (!address) return CUDA_ERROR_INVALID_VALUE;
  CUgraphNodeParams params;
  CUresult error = ask(node, CU_GRAPH_NODE_TYPE_MEM_FREE, &params);
  if (error == CUDA_SUCCESS) *address = params.free.dptr;
  return error;
}

}  // extern "C"
