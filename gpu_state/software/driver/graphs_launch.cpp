// Instantiation, launch and update of graphs; attributes of kernel nodes. Source: CUDA Driver API 13.0,
// "Graph Management".
#include <cuda.h>

#include <algorithm>

#include "gpu_state/software/device/context.h"
#include "gpu_state/software/device/graphs.h"
#include "gpu_state/software/device/launch.h"
#include "gpu_state/software/driver/per_thread.h"

using namespace cropdl;
using driver::or_own;

namespace {

CUresult instantiate(CUgraphExec* exec, CUgraph graph, cuuint64_t flags, CUgraphInstantiateResult* result,
                     CUgraphNode* wrong) {
  *result = CUDA_GRAPH_INSTANTIATE_ERROR;
  *wrong = nullptr;
  CUcontext context = nullptr;
  if (CUresult error = device::enter(&context); error != CUDA_SUCCESS) return error;
  if (!exec) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard lock(device::capture_mutex());
  return device::instantiate(graph, context, flags, exec, result, wrong);
}

// Only kernel, copy and memset nodes can be disabled.
CUresult find_switch(CUgraphExec exec_handle, CUgraphNode node_handle, std::shared_ptr<CUgraphExec_st>* exec,
                     CUgraphNode_st** own) {
  if (CUresult error = device::initialized(); error != CUDA_SUCCESS) return error;
  *exec = device::find_exec(exec_handle);
  auto node = device::find_node(node_handle);
  if (!*exec || !node) return CUDA_ERROR_INVALID_VALUE;
  *own = device::own_node(**exec, *node);
  if (!*own) return CUDA_ERROR_INVALID_VALUE;
  CUgraphNodeType type = device::type_of((*own)->work);
  return type == CU_GRAPH_NODE_TYPE_KERNEL || type == CU_GRAPH_NODE_TYPE_MEMCPY ||
                 type == CU_GRAPH_NODE_TYPE_MEMSET
             ? CUDA_SUCCESS
             : CUDA_ERROR_INVALID_VALUE;
}

// Null: not a node, or not a kernel's.
device::KernelWork* kernel_of(const std::shared_ptr<CUgraphNode_st>& node) {
  return node ? std::get_if<device::KernelWork>(&node->work) : nullptr;
}

}  // namespace

extern "C" {

CUresult cuGraphInstantiateWithFlags(CUgraphExec* exec, CUgraph graph, unsigned long long flags) {
  CUgraphInstantiateResult result;
  CUgraphNode wrong;
  // "Only supported by cuGraphInstantiateWithParams"
  if (flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD) return CUDA_ERROR_INVALID_VALUE;
  return instantiate(exec, graph, flags, &result, &wrong);
}

CUresult cuGraphInstantiateWithParams(CUgraphExec* exec, CUgraph graph,
                                      CUDA_GRAPH_INSTANTIATE_PARAMS* params) {
  if (!params) return CUDA_ERROR_INVALID_VALUE;
  CUresult error = instantiate(exec, graph, params->flags, &params->result_out, &params->hErrNode_out);
  if (error == CUDA_SUCCESS && (params->flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD))
    return cuGraphUpload(*exec, params->hUploadStream);
  return error;
}
CUresult cuGraphInstantiateWithParams_ptsz(CUgraphExec* exec, CUgraph graph,
                                           CUDA_GRAPH_INSTANTIATE_PARAMS* params) {
  if (!params) return CUDA_ERROR_INVALID_VALUE;
  CUDA_GRAPH_INSTANTIATE_PARAMS own = *params;
  own.hUploadStream = or_own(own.hUploadStream);
  CUresult error = cuGraphInstantiateWithParams(exec, graph, &own);
  params->hErrNode_out = own.hErrNode_out;
  params->result_out = own.result_out;
  return error;
}

CUresult cuGraphExecGetFlags(CUgraphExec handle, cuuint64_t* flags) {
  if (CUresult error = device::initialized(); error != CUDA_SUCCESS) return error;
  auto exec = device::find_exec(handle);
  if (!exec || !flags) return CUDA_ERROR_INVALID_VALUE;
  *flags = exec->flags & ~static_cast<cuuint64_t>(CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD);
  return CUDA_SUCCESS;
}

// Nothing needs uploading: only its place in stream order matters.
CUresult cuGraphUpload(CUgraphExec handle, CUstream stream) {
  CUcontext context = nullptr;
  if (CUresult error = device::enter(&context); error != CUDA_SUCCESS) return error;
  if (!device::find_exec(handle)) return CUDA_ERROR_INVALID_VALUE;
  return device::submit(stream, device::EmptyWork{});
}
CUresult cuGraphUpload_ptsz(CUgraphExec exec, CUstream stream) { return cuGraphUpload(exec, or_own(stream)); }

CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream) {
  CUcontext context = nullptr;
  if (CUresult error = device::enter(&context); error != CUDA_SUCCESS) return error;
  return device::launch_graph(exec, stream);
}
CUresult cuGraphLaunch_ptsz(CUgraphExec exec, CUstream stream) { return cuGraphLaunch(exec, or_own(stream)); }

CUresult cuGraphExecDestroy(CUgraphExec exec) {
  if (CUresult error = device::initialized(); error != CUDA_SUCCESS) return error;
  std::lock_guard lock(device::capture_mutex());
  return device::destroy_exec(exec);
}

CUresult cuGraphExecUpdate_v2(CUgraphExec handle, CUgraph graph, CUgraphExecUpdateResultInfo* info) {
  CUcontext context = nullptr;
  if (CUresult error = device::enter(&context); error != CUDA_SUCCESS) return error;
  if (!info) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard lock(device::capture_mutex());
  auto exec = device::find_exec(handle);
  if (exec) return device::update(*exec, graph, info);
  *info = {};
  info->result = CU_GRAPH_EXEC_UPDATE_ERROR;
  return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphNodeSetEnabled(CUgraphExec exec_handle, CUgraphNode node, unsigned is_enabled) {
  std::lock_guard lock(device::capture_mutex());
  std::shared_ptr<CUgraphExec_st> exec;
  CUgraphNode_st* own = nullptr;
  if (CUresult error = find_switch(exec_handle, node, &exec, &own); error != CUDA_SUCCESS) return error;
  own->is_enabled = is_enabled != 0;
  exec->plan.reset();
  return CUDA_SUCCESS;
}

CUresult cuGraphNodeGetEnabled(CUgraphExec exec_handle, CUgraphNode node, unsigned* is_enabled) {
  if (!is_enabled) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard lock(device::capture_mutex());
  std::shared_ptr<CUgraphExec_st> exec;
  CUgraphNode_st* own = nullptr;
  if (CUresult error = find_switch(exec_handle, node, &exec, &own); error != CUDA_SUCCESS) return error;
  *is_enabled = own->is_enabled;
  return CUDA_SUCCESS;
}

CUresult cuGraphKernelNodeSetAttribute(CUgraphNode handle, CUkernelNodeAttrID id,
                                       const CUkernelNodeAttrValue* value) {
  if (CUresult error = device::initialized(); error != CUDA_SUCCESS) return error;
  std::lock_guard lock(device::capture_mutex());
  device::KernelWork* kernel = kernel_of(device::find_node(handle));
  if (!kernel || !value) return CUDA_ERROR_INVALID_VALUE;
  CUlaunchAttribute attribute{};
  attribute.id = id;
  attribute.value = *value;
  device::KernelWork changed = *kernel;
  std::erase_if(changed.attributes, [&](const CUlaunchAttribute& there) { return there.id == id; });
  if (CUresult error = device::take_attributes({&attribute, 1}, &changed); error != CUDA_SUCCESS)
    return error;
  *kernel = std::move(changed);
  return CUDA_SUCCESS;
}

CUresult cuGraphKernelNodeGetAttribute(CUgraphNode handle, CUkernelNodeAttrID id,
                                       CUkernelNodeAttrValue* value) {
  if (CUresult error = device::initialized(); error != CUDA_SUCCESS) return error;
  std::lock_guard lock(device::capture_mutex());
  device::KernelWork* kernel = kernel_of(device::find_node(handle));
  if (!kernel || !value) return CUDA_ERROR_INVALID_VALUE;
  *value = {};
  for (const CUlaunchAttribute& attribute : kernel->attributes)
    if (attribute.id == id) *value = attribute.value;
  return CUDA_SUCCESS;
}

CUresult cuGraphKernelNodeCopyAttributes(CUgraphNode to_handle, CUgraphNode from_handle) {
  if (CUresult error = device::initialized(); error != CUDA_SUCCESS) return error;
  std::lock_guard lock(device::capture_mutex());
  device::KernelWork* to = kernel_of(device::find_node(to_handle));
  const device::KernelWork* from = kernel_of(device::find_node(from_handle));
  if (!to || !from) return CUDA_ERROR_INVALID_VALUE;
  to->attributes = from->attributes;
  to->cooperative = from->cooperative;
  return CUDA_SUCCESS;
}

}  // extern "C"
