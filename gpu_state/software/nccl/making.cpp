#include "gpu_state/software/nccl/making.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "base/format.h"
#include "gpu_state/software/nccl/current.h"
#include "gpu_state/software/nccl/work.h"
#include "gpu_state/software/threads/threads.h"

namespace cropdl::nccl {

namespace {

// The calling thread's context; as with the runtime, a thread without one gets the first device's.
CUcontext context_of_this_thread() {
  CUcontext context = nullptr;
  if (cuInit(0) != CUDA_SUCCESS || cuCtxGetCurrent(&context) != CUDA_SUCCESS) return nullptr;
  if (context) return context;
  if (cuDevicePrimaryCtxRetain(&context, 0) != CUDA_SUCCESS || cuCtxSetCurrent(context) != CUDA_SUCCESS)
    return nullptr;
  return context;
}

// Aborting a communicator also ends the making of its children.
bool is_given_up(const Making& making) {
  const Communicator& parent = making.parent;
  return (making.made && making.made->aborted.load()) ||
         (parent && parent->aborted.load() && !parent->revoked.load());
}

// All ranks of the parent exchange color and key; ranks of equal color form a communicator, ordered by key
// and old rank.
Status split(const Making& making) {
  ncclComm& parent = *making.parent;
  struct Said {
    int color, key;
  } own{making.color, making.key};
  std::vector<Said> all(static_cast<size_t>(parent.ranks));
  Status trouble;
  {
    std::unique_lock lock(parent.splitting);
    parent.next_split.wait(lock, [&] { return parent.splits_done == making.number; });
    trouble = parent.segment->exchange(&own, sizeof own, all.data(), [&] { return is_given_up(making); });
    parent.splits_done++;
  }
  parent.next_split.notify_all();
  if (!trouble || !making.made) return trouble;
  ncclComm& made = *making.made;
  std::vector<std::pair<int, int>> together;
  for (int other = 0; other < parent.ranks; other++)
    if (all[static_cast<size_t>(other)].color == making.color)
      together.emplace_back(all[static_cast<size_t>(other)].key, other);
  std::sort(together.begin(), together.end());
  made.ranks = static_cast<int>(together.size());
  for (int place = 0; place < made.ranks; place++)
    if (together[static_cast<size_t>(place)].second == parent.rank) made.rank = place;
  made.token = formatted("{}.{}-{}", parent.token, making.number, making.color);
  return {};
}

}  // namespace

std::string token_of(const ncclUniqueId& id) { return std::string(id.internal, strnlen(id.internal, 32)); }

ncclResult_t begin(Making* making) {
  if (making->is_split && making->color < 0) {
    *making->into = nullptr;
    return ncclSuccess;
  }
  auto made = std::make_shared<ncclComm>();
  made->context = making->context  ? making->context
                  : making->parent ? making->parent->context
                                   : context_of_this_thread();
  if (!made->context) return failed(ncclUnhandledCudaError, "there is no device");
  Current current(made->context);
  CUdevice device = 0;
  if (cuCtxGetDevice(&device) != CUDA_SUCCESS ||
      cuEventCreate(&made->last_launch, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS)
    return failed(ncclUnhandledCudaError, "the device's context is broken");
  made->device = device;
  if (ncclResult_t result = prepare(made.get())) {
    cuEventDestroy(made->last_launch);
    return result;
  }
  made->rank = making->rank;
  made->ranks = making->ranks;
  made->token = making->token;
  made->blocking = making->blocking;
  publish(made);
  *making->into = made.get();
  making->made = std::move(made);
  return ncclSuccess;
}

ncclResult_t complete(const Making& making) {
  Status trouble;
  if (making.is_split) trouble = split(making);
  ncclComm* made = making.made.get();
  if (trouble && made) {
    auto segment = Segment::join(made->token, made->rank, made->ranks, made->device,
                                 [&] { return is_given_up(making); });
    if (segment)
      made->segment = std::move(*segment);
    else
      trouble = segment.error();
  }
  ncclResult_t result = trouble ? ncclSuccess : failed(ncclRemoteError, trouble.error().message);
  if (made) {
    made->made.store(true);
    made->error.store(result);  // last: from now on the user may use it
  }
  return result;
}

void take_back(const Making& making) {
  if (!making.made) return;
  *making.into = nullptr;
  discard(making.made);
}

ncclResult_t make_all(std::vector<Making> makings) {
  std::vector<pthread_t> started;
  std::vector<ncclResult_t> results(makings.size(), ncclSuccess);
  std::vector<std::string> reasons(makings.size());
  ncclResult_t worst = ncclSuccess;
  for (Making& making : makings)
    if (making.is_split) making.number = making.parent->splits++;
  for (size_t i = 0; i < makings.size(); i++) {
    const Making& making = makings[i];
    auto work = [&results, &reasons, &making, i] {
      results[i] = complete(making);
      if (results[i]) reasons[i] = last_error();
    };
    bool began = true;
    if (!making.waits()) {
      if (making.parent) making.parent->children_in_the_making++;
      began = threads::start([making] {  // it owns everything it needs
        ncclResult_t result = complete(making);
        if (!making.parent) return;
        int none = ncclSuccess;
        making.parent->error.compare_exchange_strong(none, result);
        making.parent->children_in_the_making--;
      });
      if (began) worst = ncclInProgress;
      if (!began && making.parent) making.parent->children_in_the_making--;
    } else if (makings.size() == 1) {
      work();
    } else if (pthread_t thread; (began = threads::start(work, &thread))) {
      started.push_back(thread);
    }
    if (!began) {  // tells the other ranks, which may wait for this one, that it gives up
      if (making.made) making.made->aborted.store(true);
      complete(making);
      results[i] = failed(ncclSystemError, "the system gives no thread to make a communicator on");
      reasons[i] = last_error();
    }
  }
  for (pthread_t thread : started) pthread_join(thread, nullptr);
  for (size_t i = 0; i < results.size(); i++) {
    if (!results[i]) continue;
    worst = failed(results[i], reasons[i]);
    take_back(makings[i]);
  }
  return worst;
}

}  // namespace cropdl::nccl
