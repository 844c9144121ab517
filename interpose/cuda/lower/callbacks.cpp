// See callbacks.h. The callback thread does not stop while host functions are pending: no cut may fall inside
// one, and the devices would not become idle. During a stop none is enqueued, and no graph with host nodes is
// launched. So the thread stops soon: when all have run, or when the devices are idle or have failed. The
// latter because CUDA calls none after a failure ("not called in the event of an error"), and a graph's
// number of calls is unknown. LH; threads as stated at each function.
#include "interpose/cuda/lower/callbacks.h"

#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <unordered_set>
#include <utility>

#include "base/time.h"
#include "interpose/cuda/lower/device_drain.h"
#include "interpose/cuda/lower/kept.h"
#include "interpose/cuda/lower/real.h"
#include "interpose/seam/cuda_shims.h"
#include "interpose/seam/thread.h"

namespace cropdl::cuda {

struct HostFunction {
  void (*function)(void*);                          // cudaHostFn_t, CUhostFn; or:
  void (*callback)(void* stream, int, void* data);  // cudaStreamCallback_t, CUstreamCallback
  void* data;
  void* stream;  // the program's handle
  bool of_graph;
};

namespace {

// Poll interval of the callback thread: a stop request does not wake it.
constexpr std::chrono::milliseconds kLook{20}, kLookHeld{1};
// After this long, pending calls are left to the drain, which then refuses with its line.
constexpr int64_t kLongestStay = kLongestWait - 1'000'000;

struct Due {
  const HostFunction* what;
  int status;
  bool done;
};
struct Calls {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Due*> due;
  // Given to the library and not yet run; without graphs' host functions.
  std::unordered_set<const HostFunction*> under_way;
  // Calls in progress that give host functions to the library.
  uint64_t giving = 0;
  bool graphs_call = false;  // since the devices were last seen idle
  int64_t stays_since = 0;   // since when the callback thread delays a stop; 0: it does not
  IdleWatch watch;           // of the callback thread
};
Calls& calls() {
  static auto& all = *new Calls;
  return all;
}

bool stop_wanted() { return (seam::control()->attention & seam::kAttentionStop) != 0; }

// Blocks until the callback thread has run the function. A thread of the library.
void wait_for(HostFunction* what, int status) {
  Calls& c = calls();
  Due due{what, status, false};
  {
    std::unique_lock lock(c.mutex);
    c.due.push_back(&due);
    c.changed.notify_all();
    c.changed.wait(lock, [&] { return due.done; });
    c.under_way.erase(what);
  }
  if (!what->of_graph) delete what;
}

template <class Status>
void call_stream_callback(CUstream, Status status, void* of) {
  wait_for(static_cast<HostFunction*>(of), static_cast<int>(status));
}

bool is_capturing(CUstream stream, bool own) {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  const CUresult r = own ? CROPDL_DRIVER(cuStreamIsCapturing_ptsz)(stream, &status)
                         : CROPDL_DRIVER(cuStreamIsCapturing)(stream, &status);
  return r == CUDA_SUCCESS && status != CU_STREAM_CAPTURE_STATUS_NONE;
}

// False while the program is to stop, unless the thread is in a host function and cannot. Under the lock.
bool may_give() { return !stop_wanted() || seam::current_thread()->pinned != 1; }

// Gives the library a host function; `give` calls the library with it. A thread of the program.
template <class Give>
auto enqueue(HostFunction function, Give give) -> decltype(give(nullptr)) {
  Calls& c = calls();
  HostFunction* mine = nullptr;
  {
    const std::scoped_lock lock(c.mutex);
    if (!may_give()) return static_cast<decltype(give(nullptr))>(rt::kCallAgain);
    mine = new HostFunction(function);
    c.under_way.insert(mine);
    ++c.giving;
  }
  const auto r = give(mine);
  const std::scoped_lock lock(c.mutex);
  --c.giving;
  if (static_cast<int>(r) != 0) {
    c.under_way.erase(mine);
    delete mine;
  }
  return r;
}

// Enqueues a host function, or adds a node while the stream is captured.
template <class F>
auto launch_host_function(RealFunction<F> launch, CUstream stream, CUhostFn function, void* data) {
  rt::Call call;
  const CUstream real = rt::real(stream, kind::cudaStream);
  if (!function || is_capturing(real, launch.own)) {
    HostNode node{function, data};
    host_node(node);
    return launch(real, node.function, node.data);
  }
  return enqueue({function, nullptr, data, nullptr, false},
                 [&](HostFunction* f) { return launch(real, call_host_function, f); });
}

template <class F, class Callback>
auto add_callback(RealFunction<F> add, CUstream stream, Callback callback, void* data, unsigned flags) {
  rt::Call call;
  const CUstream real = rt::real(stream, kind::cudaStream);
  if (!callback) return add(real, callback, data, flags);
  return enqueue(
      {nullptr, reinterpret_cast<void (*)(void*, int, void*)>(callback), data, stream, false},
      [&](HostFunction* f) { return add(real, static_cast<Callback>(call_stream_callback), f, flags); });
}

// Whether the callback thread may stop. `lock`: of `c`; released while a library is called.
bool may_leave(Calls& c, std::unique_lock<std::mutex>& lock) {
  const bool wanted = stop_wanted();
  if (!wanted || (c.under_way.empty() && !c.graphs_call)) {
    c.stays_since = 0;
    return wanted;
  }
  if (c.giving) return false;
  const bool begins = c.stays_since == 0;
  if (begins) c.stays_since = monotonic_us();
  lock.unlock();
  if (begins) c.watch.begin();
  const int result = c.watch.look();
  lock.lock();
  if (!c.due.empty()) return false;
  if (result == CUDA_ERROR_NOT_READY) return monotonic_us() - c.stays_since > kLongestStay;
  c.under_way.clear();  // no call is expected; a late one is not waited for
  c.graphs_call = false;
  return true;
}

void set_callback_thread(uint32_t state) {
  const handles::SpinGuard guard(rt::family_lock);
  if (Kept* k = kept()) k->callback_thread = state;
}
// The callback thread's loop. The thread is pinned while inside.
int run_callbacks() {
  Calls& c = calls();
  set_callback_thread(Kept::kThere);
  std::unique_lock lock(c.mutex);
  for (;;) {
    if (!c.due.empty()) {
      Due* due = c.due.front();
      c.due.pop_front();
      lock.unlock();
      const HostFunction& f = *due->what;
      seam::current_thread()->in_host_function = 1;
      if (f.function)
        seam::call_upper(f.function, f.data);
      else
        seam::call_upper(f.callback, f.stream, due->status, f.data);
      seam::current_thread()->in_host_function = 0;
      lock.lock();
      due->done = true;
      c.changed.notify_all();
      continue;
    }
    if (may_leave(c, lock)) return 0;
    c.changed.wait_for(lock, seam::control()->attention ? kLookHeld : kLook);
  }
}

int need_callback_thread() {
  if (!rt::need_family()) return seam::kNoThread;
  const handles::SpinGuard guard(rt::family_lock);
  Kept* k = kept();
  if (!k) return seam::kNoThread;
  if (k->callback_thread == Kept::kThere) return seam::kThreadThere;
  if (k->callback_thread == Kept::kBeingMade) return seam::kAwaitThread;
  k->callback_thread = Kept::kBeingMade;
  return seam::kMakeThread;
}
int no_callback_thread() {
  set_callback_thread(0);
  return 0;
}

int note_shim_error(int error) {
  rt::Call call;
  rt::note_error(kCudart, error);
  return 0;
}

}  // namespace

HostFunction* host_function(void (*function)(void*), void* data) {
  return new HostFunction{function, nullptr, data, nullptr, true};
}

void forget_host_function(HostFunction* function) { delete function; }

std::atomic<bool> any_host_node{false};

void host_node(HostNode& node) {
  if (!node.function) return;  // the library checks it
  static std::mutex mutex;
  const std::lock_guard guard(mutex);
  // A program that captures in each step gives the same functions again and again.
  static auto& given = *new std::map<std::pair<void (*)(void*), void*>, HostFunction*>;
  HostFunction*& mine = given[{node.function, node.data}];
  if (!mine) {
    mine = host_function(node.function, node.data);
    any_host_node = true;
  }
  node = {call_host_function, mine};
}

void program_host_node(HostNode& node) {
  if (node.function != call_host_function) return;
  const auto* its = static_cast<const HostFunction*>(node.data);
  node = {its->function, its->data};
}

bool begin_calling_graph() {
  Calls& c = calls();
  const std::scoped_lock lock(c.mutex);
  if (!may_give()) return false;
  ++c.giving;
  c.graphs_call = true;
  return true;
}
void end_calling_graph() {
  Calls& c = calls();
  const std::scoped_lock lock(c.mutex);
  --c.giving;
}

int64_t callbacks_awaited_since() {
  Calls& c = calls();
  const std::scoped_lock lock(c.mutex);
  return c.stays_since ? c.stays_since : monotonic_us();
}

void call_host_function(void* f) { wait_for(static_cast<HostFunction*>(f), 0); }

libraries::Library::Table shim_calls() {
  static void* const entries[] = {
      reinterpret_cast<void*>(need_callback_thread), reinterpret_cast<void*>(no_callback_thread),
      reinterpret_cast<void*>(run_callbacks), reinterpret_cast<void*>(note_shim_error)};
  static_assert(std::size(entries) == seam::kCudaShimCalls);
  return {seam::kLibraryCudaShims, entries, seam::kCudaShimCalls, "cuda-shims"};
}

}  // namespace cropdl::cuda

using namespace cropdl::cuda;

extern "C" {

CROPDL_CALLS(launch_host_function)
CROPDL_CALLS(add_callback)

}  // extern "C"
