#include "gpu_state/software/nccl/group.h"

#include <utility>

#include "gpu_state/software/nccl/current.h"
#include "gpu_state/software/nccl/launch.h"

namespace cropdl::nccl {

namespace {

struct Launching {
  Communicator communicator;
  std::vector<std::pair<CUstream, Call>> calls;
};

struct Group {
  int depth = 0;
  ncclResult_t spoilt = ncclSuccess;
  std::vector<Launching> launchings;  // in the order of each communicator's first call
  std::vector<Making> makings;
};

Group& group() {
  thread_local Group kept;
  return kept;
}

// Calls on several streams in one group are one launch on the first stream; it waits for the others, and they
// wait for it.
ncclResult_t begin_on_streams(const Launching& one, Launch* launch) {
  Current current(one.communicator->context);
  std::vector<CUstream> streams;
  std::vector<Call> calls;
  for (const auto& [stream, call] : one.calls) {
    bool known = false;
    for (CUstream other : streams) known |= other == stream;
    if (!known) streams.push_back(stream);
    calls.push_back(call);
  }
  auto join = [streams](bool before) {
    for (size_t i = 1; i < streams.size(); i++) {
      CUevent event;
      CUstream from = before ? streams[i] : streams[0], to = before ? streams[0] : streams[i];
      if (cuEventCreate(&event, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS) return false;
      bool good =
          cuEventRecord(event, from) == CUDA_SUCCESS && cuStreamWaitEvent(to, event, 0) == CUDA_SUCCESS;
      cuEventDestroy(event);
      if (!good) return false;
    }
    return true;
  };
  if (!join(true)) return failed(ncclUnhandledCudaError, "the streams of a group cannot be joined");
  if (ncclResult_t result = begin_launch(streams[0], std::move(calls), launch)) return result;
  launch->steps.push_back([join] {
    return join(false) ? ncclSuccess
                       : failed(ncclUnhandledCudaError, "the streams of a group cannot be joined");
  });
  return ncclSuccess;
}

// What has begun before a failure is launched.
ncclResult_t launch(const std::vector<Launching>& launchings) {
  std::vector<Launch> launches;
  ncclResult_t failure = ncclSuccess;
  for (const Launching& one : launchings) {
    Launch launch{one.communicator, {}, nullptr};
    failure = begin_on_streams(one, &launch);
    if (failure != ncclSuccess) break;
    launches.push_back(std::move(launch));
  }
  const ncclResult_t result = finish_launches(&launches);
  return result != ncclSuccess ? result : failure;
}

}  // namespace

bool in_group() { return group().depth > 0; }

ncclResult_t group_start() {
  group().depth++;
  return ncclSuccess;
}

ncclResult_t spoil(ncclResult_t result) {
  if (in_group() && result != ncclSuccess && result != ncclInProgress) group().spoilt = result;
  return result;
}

ncclResult_t group_end() {
  Group& now = group();
  if (now.depth == 0) return failed(ncclInvalidUsage, "ncclGroupEnd: not within a group call");
  if (--now.depth > 0) return ncclSuccess;
  Group done = std::exchange(now, Group());
  if (done.spoilt) {
    for (const Making& making : done.makings) take_back(making);
    return done.spoilt;
  }
  ncclResult_t result = done.makings.empty() ? ncclSuccess : make_all(std::move(done.makings));
  if (result != ncclSuccess && result != ncclInProgress) return result;
  const ncclResult_t answer = launch(done.launchings);
  return answer != ncclSuccess ? answer : result;
}

ncclResult_t enqueue(const Communicator& communicator, CUstream stream, Call call) {
  if (!in_group()) return launch({{communicator, {{stream, call}}}});
  for (Launching& one : group().launchings)
    if (one.communicator == communicator) return one.calls.emplace_back(stream, call), ncclSuccess;
  group().launchings.push_back({communicator, {{stream, call}}});
  return ncclSuccess;
}

ncclResult_t enqueue(Making making) {
  if (ncclResult_t result = begin(&making)) return result;
  if (!in_group()) return make_all({std::move(making)});
  group().makings.push_back(std::move(making));
  return ncclSuccess;
}

}  // namespace cropdl::nccl
