// Streams: queues of tasks, each with a thread of its own that does them in order. What orders tasks of
// different streams are marks: a task may begin when all marks that it comes after are passed. Legacy and
// blocking streams, events and graphs all come down to marks. Sources: CUDA Driver API, "Stream
// synchronization behavior", "API synchronization behavior".
//
// Locks, taken in this order: capture_mutex() (who is captured into what; graphs), scheduler_mutex() (queues
// and marks). Nothing of the caller's runs under either.
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

#include "gpu_state/software/device/live.h"
#include "gpu_state/software/device/work.h"
#include "gpu_state/software/settings/settings.h"

namespace cropdl::device {

// A moment in a stream's course that others may wait for. Guarded by scheduler_mutex().
struct Mark {
  bool passed = false;
  int64_t time = 0;  // steady clock, ns: when it was passed
  std::vector<std::weak_ptr<CUstream_st>> waiting;
  std::vector<std::condition_variable*> callers;  // who wait in wait_until_passed()
};
using MarkPointer = std::shared_ptr<Mark>;

// What a stream does in one go, on its thread.
struct Task {
  std::string_view kind;          // as in settings::kKinds; empty: takes no time, cannot fail, is not slowed
  std::function<CUresult()> run;  // null: only a mark. An error breaks the context.
  bool even_if_broken = false;    // cuStreamAddCallback's: it is told the error
  std::string name;               // for people: whose it is; empty: the kind says enough
};

struct Capture;

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
  cropdl::device::MarkPointer last;  // of the last task that was given; null: none yet
  bool has_worker = false;
  size_t promises = 0;      // the worker stays: cropdl::device::Promise
  bool is_leaving = false;  // destroyed: the worker ends when the queue is empty
  std::condition_variable wake;

  // Guarded by capture_mutex().
  std::shared_ptr<cropdl::device::Capture> capture;  // null: not captured
  std::vector<CUgraphNode> dependencies;             // the next node's
  std::vector<CUgraphEdgeData> dependency_data;
  CUlaunchAttributeValue access_window{}, synchronization_policy{};  // kept and answered, without effect
};

namespace cropdl::device {

constexpr int kLeastPriority = 0, kGreatestPriority = -5;  // cuCtxGetStreamPriorityRange

std::mutex& capture_mutex();
std::mutex& scheduler_mutex();

// What a handle of the API means in this thread: null and CU_STREAM_LEGACY, CU_STREAM_PER_THREAD, and streams
// that live. CUDA_ERROR_INVALID_HANDLE; CUDA_ERROR_INVALID_CONTEXT: a special one and no current context; the
// error that stays in the stream's context.
CUresult resolve(CUstream handle, std::shared_ptr<CUstream_st>* stream);

CUresult create_stream(CUcontext context, unsigned flags, int priority, CUstream* handle);
// Returns at once; work that is pending is done.
CUresult destroy_stream(CUstream handle);

// The context ends: its streams and events become invalid handles once their work is done.
void destroy_streams_and_events(CUcontext context);

// Appends a task that begins after `after` and what the rules of legacy streams say besides. Its mark; null:
// the system gives no thread to do it (CUDA_ERROR_OUT_OF_MEMORY), and nothing was appended.
MarkPointer enqueue(const std::shared_ptr<CUstream_st>& stream, Task task,
                    std::vector<MarkPointer> after = {});

// While it is there and true, enqueue() cannot fail: for calls that do more than that and could not undo it.
class Promise {
 public:
  explicit Promise(std::shared_ptr<CUstream_st> stream);
  ~Promise();
  Promise(const Promise&) = delete;
  explicit operator bool() const { return stream_ != nullptr; }

 private:
  std::shared_ptr<CUstream_st> stream_;
};

// Marks that are passed when all that the stream was given so far is done (the legacy stream: that of all
// blocking streams besides).
std::vector<MarkPointer> marks_of(const std::shared_ptr<CUstream_st>& stream);
std::vector<MarkPointer> marks_of_all(CUcontext context);  // null: of all contexts
// Waits for them; returns early with the error that stays when the context breaks.
CUresult wait_for_marks(const std::vector<MarkPointer>& marks, CUcontext context);
bool all_passed(const std::vector<MarkPointer>& marks);

// Passes a mark that belongs to no task of its own (events that graphs record). Any thread.
void pass(const MarkPointer& mark);

// CUDA_ERROR_NOT_READY, CUDA_SUCCESS, the error that stays. (wait_for() is in work.h.)
CUresult query_stream(CUstream handle);

// With a seed: a small random time in which others may be first. On the calling thread.
void hold(settings::Chooser* chooser, bool others_are_busy);

// Does one piece of work on the calling thread, which is a stream's or a graph's: with the slow-down and the
// injected errors of its kind. streams_run.cpp.
CUresult run_work(const Work& work, CUcontext context);
std::string_view kind_of(const Work& work);
std::string name_of(const Work& work);  // "launch", "ncclAllReduce"

// Counts an operation of that kind and says what a tester wants it to fail with. An error of those that a
// device finds while work runs is to break the context when its turn comes; others answer the call.
CUresult injected_at_call(std::string_view kind);
bool stays_when_injected(CUresult error);

// Whether the process is ending: nothing more is begun.
bool is_ending();

}  // namespace cropdl::device
