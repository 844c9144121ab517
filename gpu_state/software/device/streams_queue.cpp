// The queues of streams, and the threads that process them.
#include "gpu_state/software/device/streams_queue.h"

#include <time.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

#include "gpu_state/software/device/context.h"
#include "gpu_state/software/device/library_work.h"
#include "gpu_state/software/threads/threads.h"

namespace {
std::atomic<uint64_t> next_stream_id{1};
}  // namespace

CUstream_st::CUstream_st(CUcontext its_context, unsigned its_flags, int its_priority)
    : context(its_context), flags(its_flags), priority(its_priority), id(next_stream_id++) {}

namespace cropdl::device {

namespace {

std::atomic<bool> ending{false};

// When this library is finalised, no new work starts: a process simply ends. Work that still runs uses only
// objects that are never destroyed. Destructors of the program's own objects have run before.
__attribute__((destructor)) void begin_nothing_more() { ending = true; }

// All streams that have or may get work; guarded by scheduler_mutex().
std::vector<std::shared_ptr<CUstream_st>>& everyone() {
  static auto* streams = new std::vector<std::shared_ptr<CUstream_st>>;
  return *streams;
}

size_t entries_everywhere = 0;     // queued or running; guarded by scheduler_mutex()
std::atomic<int64_t> usual_ns{0};  // average duration of tasks, weighted towards recent ones

int64_t now_ns() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * int64_t{1000000000} + now.tv_nsec;
}

bool is_pending(const MarkPointer& mark) { return mark && !mark->passed; }

bool all_passed_locked(const std::vector<MarkPointer>& marks) {
  return std::none_of(marks.begin(), marks.end(), is_pending);
}

void pass_locked(const MarkPointer& mark) {
  if (mark->passed) return;
  mark->passed = true;
  mark->time = now_ns();
  std::vector<std::shared_ptr<CUstream_st>> streams;
  for (const auto& waiting : mark->waiting)
    if (auto stream = waiting.lock()) streams.push_back(std::move(stream));
  mark->waiting.clear();
  // Streams with higher priority (lower numbers) are woken first.
  std::stable_sort(streams.begin(), streams.end(),
                   [](const auto& a, const auto& b) { return a->priority < b->priority; });
  for (const auto& stream : streams) stream->wake.notify_one();
  for (std::condition_variable* caller : mark->callers) caller->notify_one();
  mark->callers.clear();
}

void forget(const std::shared_ptr<CUstream_st>& stream) {
  auto& all = everyone();
  all.erase(std::remove(all.begin(), all.end(), stream), all.end());
}

CUresult run(const Task& task, CUcontext context) {
  if (!task.run) return CUDA_SUCCESS;
  if (context->error.load() != CUDA_SUCCESS && !task.even_if_broken) return CUDA_SUCCESS;  // drop the task
  return task.run();
}

void work_off(std::shared_ptr<CUstream_st> stream) {
  set_current(stream->context);
  settings::Chooser chooser(stream->id);
  std::unique_lock lock(scheduler_mutex());
  for (;;) {
    const bool is_woken = stream->wake.wait_for(lock, settings::kIdle, [&] {
      if (ending) return false;
      if (stream->queue.empty()) return stream->is_leaving && stream->promises == 0;
      return all_passed_locked(stream->queue.front().after);
    });
    if (stream->queue.empty() && stream->promises == 0) break;
    if (!is_woken) continue;
    CUstream_st::Entry entry = std::move(stream->queue.front());
    stream->queue.pop_front();
    bool others_are_busy = entries_everywhere > stream->queue.size() + 1;
    lock.unlock();
    if (entry.task.run) {
      hold(&chooser, others_are_busy);
      int64_t begin = now_ns();
      CUresult error = run(entry.task, stream->context);
      if (error != CUDA_SUCCESS)
        break_context(stream->context, error,
                      "this failed in a stream: " +
                          (entry.task.name.empty() ? std::string(entry.task.kind) : entry.task.name));
      usual_ns = (usual_ns * 7 + (now_ns() - begin)) / 8;
    }
    entry.task = {};  // the task's own objects are destroyed before its end is visible
    lock.lock();
    --entries_everywhere;
    pass_locked(entry.mark);
  }
  stream->has_worker = false;
  if (stream->is_leaving) forget(stream);
}

// False: the system provides no thread for it.
bool has_worker_locked(const std::shared_ptr<CUstream_st>& stream) {
  if (!stream->has_worker) stream->has_worker = threads::start([stream] { work_off(stream); });
  return stream->has_worker;
}

}  // namespace

std::mutex& capture_mutex() {
  static auto* mutex = new std::mutex;
  return *mutex;
}

std::mutex& scheduler_mutex() {
  static auto* mutex = new std::mutex;
  return *mutex;
}

bool is_ending() { return ending; }

void join_everyone(const std::shared_ptr<CUstream_st>& stream) { everyone().push_back(stream); }

void leave(const std::shared_ptr<CUstream_st>& stream) {
  stream->is_leaving = true;
  if (stream->has_worker)
    stream->wake.notify_one();
  else
    forget(stream);
}

Promise::Promise(std::shared_ptr<CUstream_st> stream) {
  std::lock_guard lock(scheduler_mutex());
  if (!has_worker_locked(stream)) return;
  ++stream->promises;
  stream_ = std::move(stream);
}

Promise::~Promise() {
  if (!stream_) return;
  std::lock_guard lock(scheduler_mutex());
  --stream_->promises;
  if (stream_->is_leaving) stream_->wake.notify_one();
}

MarkPointer enqueue(const std::shared_ptr<CUstream_st>& stream, Task task, std::vector<MarkPointer> after) {
  auto mark = std::make_shared<Mark>();
  std::lock_guard lock(scheduler_mutex());
  for (const auto& other : everyone())
    if (other != stream && other->context == stream->context &&
        ((stream->is_legacy && other->blocks()) || (stream->blocks() && other->is_legacy)))
      after.push_back(other->last);
  after.erase(std::remove_if(after.begin(), after.end(), [](const auto& m) { return !is_pending(m); }),
              after.end());
  if (!task.run && after.empty() && !is_pending(stream->last)) {
    stream->last = mark;
    pass_locked(mark);
    return mark;
  }
  if (!has_worker_locked(stream)) return nullptr;
  for (const MarkPointer& other : after) other->waiting.push_back(stream);
  stream->last = mark;
  stream->queue.push_back({std::move(task), mark, std::move(after)});
  ++entries_everywhere;
  stream->wake.notify_one();
  return mark;
}

std::vector<MarkPointer> marks_of(const std::shared_ptr<CUstream_st>& stream) {
  std::vector<MarkPointer> marks;
  std::lock_guard lock(scheduler_mutex());
  if (is_pending(stream->last)) marks.push_back(stream->last);
  if (stream->is_legacy)
    for (const auto& other : everyone())
      if (other->context == stream->context && other->blocks() && is_pending(other->last))
        marks.push_back(other->last);
  return marks;
}

std::vector<MarkPointer> marks_of_all(CUcontext context) {
  std::vector<MarkPointer> marks;
  std::lock_guard lock(scheduler_mutex());
  for (const auto& stream : everyone())
    if ((!context || stream->context == context) && is_pending(stream->last)) marks.push_back(stream->last);
  return marks;
}

bool all_passed(const std::vector<MarkPointer>& marks) {
  std::lock_guard lock(scheduler_mutex());
  return all_passed_locked(marks);
}

void pass(const MarkPointer& mark) {
  std::lock_guard lock(scheduler_mutex());
  pass_locked(mark);
}

void wait_until_passed(const std::vector<MarkPointer>& marks, CUcontext context) {
  std::condition_variable told;
  std::unique_lock lock(scheduler_mutex());
  for (const MarkPointer& mark : marks)
    if (is_pending(mark)) mark->callers.push_back(&told);
  // Code that breaks a context or ends the process does not wake the waiters, so they check periodically.
  while (!all_passed_locked(marks) && context->error.load() == CUDA_SUCCESS && !ending)
    told.wait_for(lock, std::chrono::milliseconds(20));
  for (const MarkPointer& mark : marks)
    if (mark) std::erase(mark->callers, &told);
}

void hold(settings::Chooser* chooser, bool others_are_busy) {
  if (!chooser->random()) return;
  // If other streams have work, every second task waits for up to twice the usual duration of tasks, so that
  // a task with a missing dependency sometimes runs before and sometimes after the other one. Otherwise every
  // fourth task waits briefly, because of the host.
  if (chooser->pick(others_are_busy ? 2 : 4) != 0) return;
  constexpr int64_t kLittle = 300'000, kMost = 20'000'000;
  int64_t most = others_are_busy ? std::min(2 * usual_ns.load() + kLittle, kMost) : kLittle;
  std::this_thread::sleep_for(std::chrono::nanoseconds(chooser->pick(static_cast<uint32_t>(most))));
}

}  // namespace cropdl::device

extern "C" void cropdl_software_gpu_end() { cropdl::device::ending = true; }
