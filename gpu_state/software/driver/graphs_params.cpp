#include "gpu_state/software/driver/graphs_params.h"

#include "gpu_state/software/device/context.h"
#include "gpu_state/software/device/copies.h"
#include "gpu_state/software/device/device.h"
#include "gpu_state/software/device/events.h"
#include "gpu_state/software/device/launch.h"
#include "gpu_state/software/device/module.h"
#include "gpu_state/software/device/not_built.h"
#include "gpu_state/software/device/values.h"

namespace cropdl::driver {

namespace {

// The context that the caller named; null: the current one.
CUresult choose(CUcontext named, CUcontext* context) {
  if (!named) return CUDA_SUCCESS;
  *context = named;
  return device::check(named);
}

CUresult kernel(const CUDA_KERNEL_NODE_PARAMS_v3& from, device::Work* work, CUcontext* context) {
  CUfunction function = from.func;
  if (function) {
    if (auto known = device::find_function(function)) *context = known->context;
  } else {
    function = reinterpret_cast<CUfunction>(from.kern);
    if (CUresult error = choose(from.ctx, context); error != CUDA_SUCCESS) return error;
  }
  CUlaunchConfig config{};
  config.gridDimX = from.gridDimX;
  config.gridDimY = from.gridDimY;
  config.gridDimZ = from.gridDimZ;
  config.blockDimX = from.blockDimX;
  config.blockDimY = from.blockDimY;
  config.blockDimZ = from.blockDimZ;
  config.sharedMemBytes = from.sharedMemBytes;
  device::KernelWork made;
  CUresult error = device::kernel_work(*context, config, function, from.kernelParams, from.extra, &made);
  *work = std::move(made);
  return error;
}

CUresult copy(const CUDA_MEMCPY_NODE_PARAMS& from, device::Work* work, CUcontext* context) {
  if (from.flags || from.reserved) return CUDA_ERROR_INVALID_VALUE;
  if (CUresult error = choose(from.copyCtx, context); error != CUDA_SUCCESS) return error;
  device::CopyWork made;
  made.copy = from.copyParams;
  device::CopyFacts facts;
  CUresult error = device::examine(made, *context, &facts);
  *work = std::move(made);
  return error;
}

CUresult fill(const CUDA_MEMSET_NODE_PARAMS_v2& from, device::Work* work, CUcontext* context) {
  if (CUresult error = choose(from.ctx, context); error != CUDA_SUCCESS) return error;
  if (from.elementSize != 1 && from.elementSize != 2 && from.elementSize != 4)
    return CUDA_ERROR_INVALID_VALUE;
  if (from.width == 0 || from.height == 0) return CUDA_ERROR_INVALID_VALUE;
  device::MemsetWork made;
  made.destination = from.dst;
  made.pitch = from.pitch;
  made.width = from.width;
  made.height = from.height;
  made.value = from.value;
  made.element = from.elementSize;
  device::Side side;
  CUresult error = device::examine(made, *context, &side);
  *work = made;
  return error;
}

CUresult values(const CUDA_BATCH_MEM_OP_NODE_PARAMS_v2& from, device::Work* work, CUcontext* context) {
  if (from.flags) return CUDA_ERROR_INVALID_VALUE;
  if (CUresult error = choose(from.ctx, context); error != CUDA_SUCCESS) return error;
  device::ValueWork made;
  CUresult error = device::values_from(*context, from.paramArray, from.count, &made);
  *work = std::move(made);
  return error;
}

CUresult event(CUevent handle, device::Work made, device::Work* work) {
  if (!device::find_event(handle)) return CUDA_ERROR_INVALID_HANDLE;
  *work = std::move(made);
  return CUDA_SUCCESS;
}

void show(CUgraphNode_st& node, device::KernelWork& work, CUDA_KERNEL_NODE_PARAMS_v3* to) {
  *to = {};
  to->func = work.function;
  to->gridDimX = work.grid[0];
  to->gridDimY = work.grid[1];
  to->gridDimZ = work.grid[2];
  to->blockDimX = work.block[0];
  to->blockDimY = work.block[1];
  to->blockDimZ = work.block[2];
  to->sharedMemBytes = work.shared;
  to->ctx = node.context;
  node.asked_pointers = device::pointers_to_parameters(work);
  to->kernelParams = node.asked_pointers.empty() ? nullptr : node.asked_pointers.data();
}

void show(CUgraphNode_st& node, const device::ValueWork& work, CUDA_BATCH_MEM_OP_NODE_PARAMS_v2* to) {
  node.asked_values.clear();
  for (const auto& one : work.all) {
    CUstreamBatchMemOpParams made{};
    if (one.is_wait) {
      made.operation = one.is_64 ? CU_STREAM_MEM_OP_WAIT_VALUE_64 : CU_STREAM_MEM_OP_WAIT_VALUE_32;
      made.waitValue.address = one.address;
      made.waitValue.value64 = one.value;
      made.waitValue.flags = one.flags;
    } else {
      made.operation = one.is_64 ? CU_STREAM_MEM_OP_WRITE_VALUE_64 : CU_STREAM_MEM_OP_WRITE_VALUE_32;
      made.writeValue.address = one.address;
      made.writeValue.value64 = one.value;
    }
    node.asked_values.push_back(made);
  }
  *to = {node.context, static_cast<unsigned>(node.asked_values.size()), node.asked_values.data(), 0};
}

}  // namespace

CUresult work_of(const CUgraphNodeParams& from, device::Work* work, CUcontext* context) {
  switch (from.type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
      return kernel(from.kernel, work, context);
    case CU_GRAPH_NODE_TYPE_MEMCPY:
      return copy(from.memcpy, work, context);
    case CU_GRAPH_NODE_TYPE_MEMSET:
      return fill(from.memset, work, context);
    case CU_GRAPH_NODE_TYPE_HOST:
      if (!from.host.fn) return CUDA_ERROR_INVALID_VALUE;
      *work = device::HostWork{from.host.fn, from.host.userData, nullptr, nullptr};
      return CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_EMPTY:
      *work = device::EmptyWork{};
      return CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
      return event(from.eventWait.event, device::WaitWork{from.eventWait.event, true}, work);
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
      return event(from.eventRecord.event, device::RecordWork{from.eventRecord.event, true}, work);
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
      return values(from.memOp, work, context);
    case CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL:
      return device::not_built("a graph node that signals external semaphores");
    case CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT:
      return device::not_built("a graph node that waits for external semaphores");
    case CU_GRAPH_NODE_TYPE_CONDITIONAL:
      return device::not_built("a conditional graph node");
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult parameters_of(CUgraphNode_st& node, CUgraphNodeType type, CUgraphNodeParams* to) {
  if (device::type_of(node.work) != type) return CUDA_ERROR_INVALID_VALUE;
  *to = {};
  to->type = type;
  if (auto* work = std::get_if<device::KernelWork>(&node.work)) {
    show(node, *work, &to->kernel);
  } else if (std::holds_alternative<device::LibraryWork>(node.work)) {
    return device::not_built("asking a node of NCCL's, cuBLAS's or cuRAND's for its kernel");
  } else if (auto* work = std::get_if<device::CopyWork>(&node.work)) {
    to->memcpy.copyCtx = node.context;
    to->memcpy.copyParams = work->copy;
  } else if (auto* work = std::get_if<device::MemsetWork>(&node.work)) {
    to->memset = {work->destination, work->pitch,  work->value, work->element,
                  work->width,       work->height, node.context};
  } else if (auto* work = std::get_if<device::HostWork>(&node.work)) {
    to->host = {work->function, work->data};
  } else if (node.child) {
    to->graph.graph = node.child.get();
  } else if (auto* work = std::get_if<device::RecordWork>(&node.work)) {
    to->eventRecord.event = work->event;
  } else if (auto* work = std::get_if<device::WaitWork>(&node.work)) {
    to->eventWait.event = work->event;
  } else if (auto* work = std::get_if<device::AllocateWork>(&node.work)) {
    to->alloc = {node.pool_properties, node.accesses.data(), node.accesses.size(), work->size, work->address};
  } else if (auto* work = std::get_if<device::ReleaseWork>(&node.work)) {
    to->free.dptr = work->address;
  } else if (auto* work = std::get_if<device::ValueWork>(&node.work)) {
    show(node, *work, &to->memOp);
  }
  return CUDA_SUCCESS;
}

}  // namespace cropdl::driver
