// Streams: queues of tasks, each with its own thread that runs them in order. Marks order tasks of different
// streams: a task may begin when all marks in its `after` are passed. Legacy and blocking streams, events and
// graphs are all implemented with marks. Sources: CUDA Driver API, "Stream synchronization behavior", "API
// synchronization behavior".
//
// Locks, in this order: capture_mutex() (captures and graphs), scheduler_mutex() (queues and marks). No code
// of the caller's runs under either.
#pragma once

#include <cuda.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "gpu_state/software/settings/settings.h"

namespace cropdl::device {

// A point in a stream that other streams and threads may wait for. Guarded by scheduler_mutex().
struct Mark {
  bool passed = false;
  int64_t time = 0;  // steady clock, ns: the time when it was passed
  std::vector<std::weak_ptr<CUstream_st>> waiting;
  std::vector<std::condition_variable*> callers;  // threads in wait_until_passed()
};
using MarkPointer = std::shared_ptr<Mark>;

// A unit of work that a stream's thread runs.
struct Task {
  std::string_view kind;  // as in settings::kKinds; empty: takes no time, cannot fail, is never slowed down
  std::function<CUresult()> run;  // null: only a mark. An error breaks the context
  bool even_if_broken = false;    // for cuStreamAddCallback, whose function gets the error
  std::string name;               // for messages; empty: the kind is enough
};

struct Capture;  // streams.h

}  // namespace cropdl::device

struct CUstream_st : std::enable_shared_from_this<CUstream_st> {
  CUstream_st(CUcontext context, unsigned flags, int priority);
  const CUcontext context;
  const unsigned flags;
  std::atomic<int> priority;  // lower numbers go first
  const uint64_t id;          // unique in the process
  bool is_legacy = false;
  bool blocks() const { return !is_legacy && !(flags & CU_STREAM_NON_BLOCKING); }

  struct Entry {
    cropdl::device::Task task;
    cropdl::device::MarkPointer mark;
    std::vector<cropdl::device::MarkPointer> after;
  };
  // Guarded by scheduler_mutex().
  std::deque<Entry> queue;
  cropdl::device::MarkPointer last;  // of the last task; null: no task yet
  bool has_worker = false;
  size_t promises = 0;      // >0: the worker must stay (cropdl::device::Promise)
  bool is_leaving = false;  // destroyed: the worker ends when the queue is empty
  std::condition_variable wake;

  // Guarded by capture_mutex().
  std::shared_ptr<cropdl::device::Capture> capture;  // null: not captured
  std::vector<CUgraphNode> dependencies;             // of the next node
  std::vector<CUgraphEdgeData> dependency_data;
  CUlaunchAttributeValue access_window{}, synchronization_policy{};  // stored for queries, without effect
};

namespace cropdl::device {

std::mutex& capture_mutex();
std::mutex& scheduler_mutex();

// Appends a task that begins after the marks of `after` and as the rules of legacy streams require. Returns
// its mark; null: no thread could be created (CUDA_ERROR_OUT_OF_MEMORY), and nothing was appended.
MarkPointer enqueue(const std::shared_ptr<CUstream_st>& stream, Task task,
                    std::vector<MarkPointer> after = {});

// While it exists and is true, enqueue() cannot fail. For calls with other effects that they could not undo.
class Promise {
 public:
  explicit Promise(std::shared_ptr<CUstream_st> stream);
  ~Promise();
  Promise(const Promise&) = delete;
  explicit operator bool() const { return stream_ != nullptr; }

 private:
  std::shared_ptr<CUstream_st> stream_;
};

// Marks that are passed when all work submitted to the stream so far is done (legacy stream: also that of all
// blocking streams).
std::vector<MarkPointer> marks_of(const std::shared_ptr<CUstream_st>& stream);
std::vector<MarkPointer> marks_of_all(CUcontext context);  // null: all contexts
bool all_passed(const std::vector<MarkPointer>& marks);

// Passes a mark that belongs to no task (events that graphs record). Any thread.
void pass(const MarkPointer& mark);

// With a seed: waits a short random time, so that other threads may run first. On the calling thread.
void hold(settings::Chooser* chooser, bool others_are_busy);

// Whether the process is ending: no more work begins.
bool is_ending();

// Both with scheduler_mutex() held. From now on, the context's legacy stream and this stream wait for each
// other.
void join_everyone(const std::shared_ptr<CUstream_st>& stream);
// Ends that once the stream has finished its tasks.
void leave(const std::shared_ptr<CUstream_st>& stream);

// Waits until all marks are passed, the context breaks or the process ends.
void wait_until_passed(const std::vector<MarkPointer>& marks, CUcontext context);

}  // namespace cropdl::device
