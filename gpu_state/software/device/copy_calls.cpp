// Which parts of copies and memsets run in the call, which in the stream, and what the call waits for.
#include <utility>

#include "gpu_state/software/device/context.h"
#include "gpu_state/software/device/copies.h"
#include "gpu_state/software/device/streams.h"

namespace cropdl::device {

namespace {

// Up to this size, pageable memory is copied during the call; beyond it, the caller waits while it is read.
constexpr uint64_t kMostStaged = 64 << 20;

CUresult submit_and_wait(CUstream stream, Work work) {
  if (CUresult error = submit(stream, std::move(work))) return error;
  return wait_for(stream);
}

// "serialized with respect to all pending and future asynchronous work into the current context, srcContext,
// and dstContext": waits for pending work; later work finds the copy complete.
CUresult copy_between_devices(const CopyWork& work, CUstream stream, CUcontext from, CUcontext to) {
  for (CUcontext context : {from, to})
    if (context)
      if (CUresult error = wait_for_all(context)) return error;
  if (CUresult error = wait_for(stream)) return error;
  return submit_and_wait(stream, work);
}

// "synchronous memory operations ... will always synchronize", whatever the kind of memory.
bool synchronizes(const CUctx_st& context) { return (context.flags.load() & CU_CTX_SYNC_MEMOPS) != 0; }

}  // namespace

CUresult copy(CopyWork work, CUstream stream, bool asynchronous) {
  if (!asynchronous)
    if (CUresult error = unsafe_while_capturing()) return error;
  std::shared_ptr<CUstream_st> known;
  if (CUresult error = resolve(stream, &known)) return error;
  CopyFacts facts;
  if (CUresult error = examine(work, known->context, &facts)) return error;
  const Side &from = facts.source, &to = facts.destination;
  // A graph node accesses host memory when the graph runs.
  if (asynchronous && is_captured(stream)) return submit(stream, std::move(work));
  if (facts.bytes == 0)
    return submit(stream, EmptyWork{});  // nothing to copy, but it takes its place in the stream
  if (!asynchronous && (work.source || work.destination))
    return copy_between_devices(work, stream, work.source, work.destination);
  if (!asynchronous && from.where == Where::kDevice && to.where == Where::kDevice && from.device != to.device)
    return copy_between_devices(work, stream, from.context, to.context);
  if (from.is_host() && to.is_host()) return submit_and_wait(stream, std::move(work));
  if (from.where == Where::kPageable) {
    // "a stream sync is performed before the copy is initiated. The function will return once the pageable
    // buffer has been copied to the staging memory"
    if (!asynchronous)
      if (CUresult error = wait_for(stream)) return error;
    if (facts.bytes > kMostStaged) return submit_and_wait(stream, std::move(work));
    work.staged = std::make_shared<std::vector<std::byte>>();
    if (!stage(work.copy, work.staged.get())) return CUDA_ERROR_INVALID_VALUE;
    const bool waits = !asynchronous && (to.sync_memops || synchronizes(*known->context));
    return waits ? submit_and_wait(stream, std::move(work)) : submit(stream, std::move(work));
  }
  bool waits = to.where == Where::kPageable;
  if (!asynchronous)
    waits = from.is_host() || to.is_host() || from.sync_memops || to.sync_memops ||
            synchronizes(*known->context);  // otherwise device to device
  return waits ? submit_and_wait(stream, std::move(work)) : submit(stream, std::move(work));
}

CUresult fill(MemsetWork work, CUstream stream, bool asynchronous) {
  if (!asynchronous)
    if (CUresult error = unsafe_while_capturing()) return error;
  std::shared_ptr<CUstream_st> known;
  if (CUresult error = resolve(stream, &known)) return error;
  Side side;
  if (CUresult error = examine(work, known->context, &side)) return error;
  if (work.width == 0 || work.height == 0) return submit(stream, EmptyWork{});
  // "The synchronous memset functions are asynchronous with respect to the host except when the target is
  // pinned host memory or a Unified Memory region, in which case they are fully synchronous."
  const bool waits = !asynchronous && (side.where == Where::kPinned || side.where == Where::kManaged ||
                                       side.sync_memops || synchronizes(*known->context));
  return waits ? submit_and_wait(stream, work) : submit(stream, work);
}

}  // namespace cropdl::device
