// Runs a graph as a single task of its stream. The steps run in an order that the edges allow; steps that do
// not depend on each other run concurrently, on the stream's thread and helper threads.
#include "gpu_state/software/device/graphs_run.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "gpu_state/software/device/background.h"
#include "gpu_state/software/device/capture.h"
#include "gpu_state/software/device/context.h"
#include "gpu_state/software/device/events.h"
#include "gpu_state/software/device/graphs_memory.h"
#include "gpu_state/software/device/module.h"
#include "gpu_state/software/device/streams_queue.h"
#include "gpu_state/software/device/streams_run.h"

namespace cropdl::device {

namespace {

// Appends the steps of a graph; steps without predecessors follow step `entry`. Returns the steps without
// successors.
std::vector<size_t> append(Plan* plan, const CUgraph_st& graph, std::optional<size_t> entry) {
  std::map<const CUgraphNode_st*, size_t> ends;  // the step at which a node is complete
  std::vector<size_t> last;
  auto wait_for = [&](size_t step, size_t before) {
    plan->steps[before].after.push_back(step);
    ++plan->steps[step].before;
  };
  auto add = [&](Work work, CUcontext context, bool is_enabled) {
    plan->steps.push_back({std::move(work), context, is_enabled, 0, {}});
    return plan->steps.size() - 1;
  };
  std::vector<CUgraphNode_st*> order = in_order(graph).value_or(std::vector<CUgraphNode_st*>());
  for (CUgraphNode_st* node : order) {
    size_t begin = node->child ? add(EmptyWork{}, node->context, true)
                               : add(node->work, node->context, node->is_enabled);
    for (const auto& edge : node->before) wait_for(begin, ends[edge.node]);
    if (node->before.empty() && entry) wait_for(begin, *entry);
    size_t end = begin;
    if (node->child) {
      std::vector<size_t> inner = append(plan, *node->child, begin);
      end = add(EmptyWork{}, node->context, true);
      for (size_t step : inner) wait_for(end, step);
      if (inner.empty()) wait_for(end, begin);
    }
    ends[node] = end;
    if (node->after.empty()) last.push_back(end);
  }
  return last;
}

// One launch. The marks that its event nodes record and wait for are determined at the launch.
struct Run {
  std::shared_ptr<const Plan> plan;
  std::map<size_t, MarkPointer> recorded, awaited;  // by step
  std::vector<Reservation> freed;  // memory that earlier launches left allocated and this one frees
  CUcontext context = nullptr;

  std::mutex mutex;
  std::condition_variable over;
  std::vector<size_t> missing;  // for each step, how many predecessors are not complete
  std::vector<size_t> ready;
  size_t done = 0;
  CUresult error = CUDA_SUCCESS;
  settings::Chooser chooser{0};

  // Passes all marks, so that nobody waits forever for its events, also if it was dropped or ended early.
  void pass_all() const {
    for (auto& [step, mark] : recorded) pass(mark);
  }
  ~Run() { pass_all(); }
};

CUresult do_step(Run& run, size_t which) {
  const Step& step = run.plan->steps[which];
  if (auto mark = run.recorded.find(which); mark != run.recorded.end()) pass(mark->second);
  if (auto mark = run.awaited.find(which); mark != run.awaited.end())
    wait_until_passed({mark->second}, step.context);
  while (is_ending()) ::pause();  // nothing may start any more; this thread ends with the process
  if (!step.is_enabled || std::holds_alternative<EmptyWork>(step.work)) return CUDA_SUCCESS;
  if (step.context->error.load() != CUDA_SUCCESS) return static_cast<CUresult>(step.context->error.load());
  set_current(step.context);
  CUresult error = run_work(step.work, step.context);
  if (error != CUDA_SUCCESS)
    break_context(step.context, error, "this failed in a graph: " + name_of(step.work));
  return error;
}

void call_helpers(const std::shared_ptr<Run>& run, size_t count);

// Runs ready steps until there are none; if a step makes several ready, calls helpers.
void work_off(const std::shared_ptr<Run>& run) {
  std::unique_lock lock(run->mutex);
  while (!run->ready.empty()) {
    size_t at = run->chooser.pick(static_cast<uint32_t>(run->ready.size()));
    size_t which = run->ready[at];
    run->ready.erase(run->ready.begin() + static_cast<ptrdiff_t>(at));
    settings::Chooser chooser(run->chooser.random() ? run->chooser.pick(1u << 30) : 0);
    bool skip = run->error != CUDA_SUCCESS;
    lock.unlock();
    CUresult error = CUDA_SUCCESS;
    if (!skip) {
      if (!kind_of(run->plan->steps[which].work).empty()) hold(&chooser, run->plan->steps.size() > 1);
      error = do_step(*run, which);
    }
    lock.lock();
    if (error != CUDA_SUCCESS && run->error == CUDA_SUCCESS) run->error = error;
    size_t others = 0;
    for (size_t next : run->plan->steps[which].after)
      if (--run->missing[next] == 0) {
        run->ready.push_back(next);
        ++others;
      }
    if (others > 1) call_helpers(run, others - 1);
    if (++run->done == run->plan->steps.size()) run->over.notify_all();
  }
}

// Without helper threads, the thread that made the steps ready runs them all.
void call_helpers(const std::shared_ptr<Run>& run, size_t count) {
  auto help = [run] {
    work_off(run);
    set_current(nullptr);
  };
  while (count-- > 0 && in_background(help)) {
  }
}

CUresult do_all(const std::shared_ptr<Run>& run) {
  {
    std::lock_guard lock(run->mutex);
    run->missing.clear();
    for (size_t i = 0; i < run->plan->steps.size(); ++i) {
      run->missing.push_back(run->plan->steps[i].before);
      if (run->plan->steps[i].before == 0) run->ready.push_back(i);
    }
    if (run->ready.size() > 1) call_helpers(run, run->ready.size() - 1);
  }
  work_off(run);
  set_current(run->context);  // the previous step on this thread may have used another device
  std::unique_lock lock(run->mutex);
  run->over.wait(lock, [&] { return run->done == run->plan->steps.size(); });
  // Destroys the plan before the graph counts as complete: helpers may still hold the run, and some have not
  // started, but they will find no step.
  auto plan = std::move(run->plan);
  auto freed = std::move(run->freed);
  CUresult error = run->error;
  lock.unlock();
  run->pass_all();
  return error;
}

// Events: nodes record them as of the launch, and wait for what was recorded then.
CUresult find_events(Run* run) {
  std::map<CUevent, MarkPointer> recorded;
  for (size_t i = 0; i < run->plan->steps.size(); ++i) {
    const Work& work = run->plan->steps[i].work;
    if (auto* record = std::get_if<RecordWork>(&work)) {
      if (!find_event(record->event)) return CUDA_ERROR_INVALID_HANDLE;
      recorded[record->event] = run->recorded[i] = std::make_shared<Mark>();
    } else if (auto* wait = std::get_if<WaitWork>(&work)) {
      auto event = find_event(wait->event);
      if (!event) return CUDA_ERROR_INVALID_HANDLE;
      std::lock_guard lock(scheduler_mutex());
      MarkPointer mark = recorded.count(wait->event) ? recorded[wait->event] : event->recorded;
      if (mark) run->awaited[i] = mark;
    }
  }
  return CUDA_SUCCESS;
}

void record_events(const Run& run) {
  for (auto& [step, mark] : run.recorded) {
    auto event = find_event(std::get<RecordWork>(run.plan->steps[step].work).event);
    if (!event) continue;  // another thread has just destroyed it
    event->is_captured = false;
    event->capture.reset();
    event->captured_nodes.clear();
    std::lock_guard lock(scheduler_mutex());
    event->recorded = mark;
  }
}

// Unloaded code is not run, although it still exists.
CUresult check_kernels(const Plan& plan) {
  for (const Step& step : plan.steps)
    if (auto* kernel = std::get_if<KernelWork>(&step.work); kernel && !find_function(kernel->function))
      return CUDA_ERROR_INVALID_HANDLE;
  return CUDA_SUCCESS;
}

// Memory that an earlier launch left allocated is freed first, if the instance has that flag; otherwise it is
// an error.
CUresult settle_memory(const CUgraphExec_st& exec, const std::shared_ptr<CUstream_st>& stream, Run* run) {
  const Plan& plan = *run->plan;
  bool frees_first = exec.flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH;
  for (const AllocateWork& allocate : plan.left)
    if (!frees_first && is_left_allocated(allocate.address)) return CUDA_ERROR_INVALID_VALUE;
  for (const AllocateWork& allocate : plan.left) {
    Reservation left = now_freed(allocate.address);
    if (!left) continue;
    Task task;
    task.kind = "free";
    task.run = [release = ReleaseWork{allocate.address, allocate.id, left}, context = stream->context] {
      return perform(release, context);
    };
    enqueue(stream, std::move(task), {exec.last});
  }
  for (const AllocateWork& allocate : plan.left) now_left(allocate.address, stream->context);
  for (CUdeviceptr address : plan.freed)
    if (Reservation left = now_freed(address)) run->freed.push_back(std::move(left));
  return CUDA_SUCCESS;
}

}  // namespace

std::shared_ptr<const Plan> plan_of(const std::shared_ptr<CUgraph_st>& graph) {
  auto plan = std::make_shared<Plan>();
  plan->graph = graph;
  append(plan.get(), *graph, std::nullopt);
  for (const Step& step : plan->steps)
    if (auto* release = std::get_if<ReleaseWork>(&step.work)) plan->freed.push_back(release->address);
  for (const Step& step : plan->steps)
    if (auto* allocate = std::get_if<AllocateWork>(&step.work); allocate && !allocate->pool)
      if (std::find(plan->freed.begin(), plan->freed.end(), allocate->address) == plan->freed.end())
        plan->left.push_back(*allocate);
  return plan;
}

CUresult launch_graph(CUgraphExec handle, CUstream stream_handle) {
  std::shared_ptr<CUstream_st> stream;
  if (CUresult error = resolve(stream_handle, &stream); error != CUDA_SUCCESS) return error;
  std::lock_guard lock(capture_mutex());
  auto exec = find_exec(handle);
  if (!exec) return CUDA_ERROR_INVALID_VALUE;
  if (CUresult error = check_implicit(*stream); error != CUDA_SUCCESS) return error;
  if (stream->capture) return add_captured_child(*stream, exec->graph);
  CUresult fault = injected_at_call("graph");
  if (fault != CUDA_SUCCESS && !stays_when_injected(fault)) return fault;
  if (!exec->plan) exec->plan = plan_of(exec->graph);
  auto run = std::make_shared<Run>();
  run->plan = exec->plan;
  run->context = stream->context;
  static std::atomic<uint64_t> runs{0};
  run->chooser = settings::Chooser(++runs << 32);
  if (CUresult error = check_kernels(*run->plan); error != CUDA_SUCCESS) return error;
  if (CUresult error = find_events(run.get()); error != CUDA_SUCCESS) return error;
  Promise promise(stream);
  if (!promise) return CUDA_ERROR_OUT_OF_MEMORY;
  if (CUresult error = settle_memory(*exec, stream, run.get()); error != CUDA_SUCCESS) return error;
  record_events(*run);
  Task task;
  task.kind = "graph";
  task.run = [run, fault] {
    if (fault != CUDA_SUCCESS) return fault;
    auto begin = std::chrono::steady_clock::now();
    CUresult error = do_all(run);
    double times = settings::slowdown("graph");
    if (times > 1) std::this_thread::sleep_for((std::chrono::steady_clock::now() - begin) * (times - 1));
    return error;
  };
  run.reset();
  std::vector<MarkPointer> after;
  if (exec->last) after.push_back(exec->last);
  exec->last = enqueue(stream, std::move(task), std::move(after));
  return CUDA_SUCCESS;
}

}  // namespace cropdl::device
