#include "gpu_state/software/device/streams_run.h"

#include <chrono>
#include <optional>
#include <thread>

#include "base/format.h"
#include "gpu_state/software/device/callbacks.h"
#include "gpu_state/software/device/capture.h"
#include "gpu_state/software/device/context.h"
#include "gpu_state/software/device/device.h"
#include "gpu_state/software/device/events.h"
#include "gpu_state/software/device/library_work.h"
#include "gpu_state/software/device/memory.h"
#include "gpu_state/software/device/pools.h"
#include "gpu_state/software/device/printed.h"
#include "gpu_state/software/device/streams.h"
#include "gpu_state/software/device/values.h"
#include "gpu_state/software/settings/settings.h"

namespace cropdl::device {

namespace {

template <class... Functions>
struct Overloaded : Functions... {
  using Functions::operator()...;
};
template <class... Functions>
Overloaded(Functions...) -> Overloaded<Functions...>;

CUresult run_kernel(const KernelWork& work, CUcontext context) {
  engine::Launch launch;
  launch.kernel = work.kernel;
  launch.grid = work.grid;
  launch.block = work.block;
  launch.dynamic_shared = work.shared;
  launch.parameters = work.parameters;
  launch.cooperative = work.cooperative;
  launch.memory = &context->device->memory().view();
  launch.local_limit = context->limits[CU_LIMIT_STACK_SIZE].load();
  launch.print = [context](std::string_view text) { print(context, text); };
  engine::Outcome outcome = context->device->worker_pool().run(launch);
  if (outcome.error != CUDA_SUCCESS) break_context(context, outcome.error, outcome.text);
  return outcome.error;
}

CUresult run_host(const HostWork& work, CUcontext context) {
  show_printed(context);
  call_back(context->device, [&] {
    if (work.callback)
      work.callback(work.stream, static_cast<CUresult>(context->error.load()), work.data);
    else
      work.function(work.data);
  });
  return CUDA_SUCCESS;
}

CUresult run_plain(const Work& work, CUcontext context) {
  return std::visit(Overloaded{
                        [&](const KernelWork& kernel) { return run_kernel(kernel, context); },
                        [&](const HostWork& host) { return run_host(host, context); },
                        [&](const LibraryWork& library) {
                          working_for() = context;
                          const CUresult error = library.run();
                          working_for() = nullptr;
                          return error;
                        },
                        [&](const ValueWork& values) { return perform(values, context); },
                        [&](const CopyWork& copy) { return perform(copy, context); },
                        [&](const MemsetWork& memset) { return perform(memset, context); },
                        [&](const AllocateWork& allocate) { return perform(allocate, context); },
                        [&](const ReleaseWork& release) { return perform(release, context); },
                        [&](const PrefetchWork& prefetch) { return perform(prefetch, context); },
                        // Marks, and kinds that a graph expands before it runs.
                        [&](const EmptyWork&) { return CUDA_SUCCESS; },
                        [&](const RecordWork&) { return CUDA_SUCCESS; },
                        [&](const WaitWork&) { return CUDA_SUCCESS; },
                        [&](const ChildWork&) { return CUDA_ERROR_UNKNOWN; },
                    },
                    work);
}

// The error of a failing operation if the tester specified none.
CUresult usual_error(std::string_view kind) {
  if (kind == "copy" || kind == "memset") return CUDA_ERROR_ILLEGAL_ADDRESS;
  return CUDA_ERROR_LAUNCH_FAILED;
}

CUresult fail_as_asked(std::string_view kind, CUresult error, CUcontext context) {
  break_context(context, error,
                formatted("this {} was made to fail by CROPDL_SOFTWARE_GPU_FAIL", std::string(kind)));
  return error;
}

// Runs the operation, then sleeps so that it takes as many times longer as the tester specified.
CUresult run_slowed(const Work& work, CUcontext context) {
  std::string_view kind = kind_of(work);
  double times = kind.empty() ? 1 : settings::slowdown(kind);
  if (times <= 1) return run_plain(work, context);
  auto begin = std::chrono::steady_clock::now();
  CUresult error = run_plain(work, context);
  std::this_thread::sleep_for((std::chrono::steady_clock::now() - begin) * (times - 1));
  return error;
}

[[maybe_unused]] const bool kContextsEndAfterTheirWork =
    when_a_context_ends(Keeper::kWork, [](CUcontext context) { (void)wait_for_all(context); });

}  // namespace

bool stays_when_injected(CUresult error) {
  switch (error) {
    case CUDA_ERROR_ECC_UNCORRECTABLE:
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_LAUNCH_TIMEOUT:
    case CUDA_ERROR_ASSERT:
    case CUDA_ERROR_HARDWARE_STACK_ERROR:
    case CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case CUDA_ERROR_MISALIGNED_ADDRESS:
    case CUDA_ERROR_INVALID_ADDRESS_SPACE:
    case CUDA_ERROR_INVALID_PC:
    case CUDA_ERROR_LAUNCH_FAILED:
      return true;
    default:
      return false;
  }
}

CUresult injected_at_call(std::string_view kind) {
  if (kind.empty()) return CUDA_SUCCESS;
  int error = settings::injected(kind);
  return error < 0 ? usual_error(kind) : static_cast<CUresult>(error);
}

std::string_view kind_of(const Work& work) {
  return std::visit(Overloaded{
                        [](const KernelWork&) { return std::string_view("launch"); },
                        [](const CopyWork&) { return std::string_view("copy"); },
                        [](const MemsetWork&) { return std::string_view("memset"); },
                        [](const HostWork&) { return std::string_view("host"); },
                        [](const LibraryWork& work) {
                          return std::string_view(work.name.rfind("nccl", 0) == 0 ? "nccl" : "library");
                        },
                        [](const auto&) { return std::string_view(); },
                    },
                    work);
}

std::string name_of(const Work& work) {
  auto* library = std::get_if<LibraryWork>(&work);
  return library && !library->name.empty() ? library->name : std::string(kind_of(work));
}

CUresult run_work(const Work& work, CUcontext context) {
  std::string_view kind = kind_of(work);
  if (CUresult error = injected_at_call(kind); error != CUDA_SUCCESS)
    return fail_as_asked(kind, error, context);
  return run_slowed(work, context);
}

CUresult submit(CUstream handle, Work work) {
  if (auto* record = std::get_if<RecordWork>(&work))
    return record_event(record->event, handle, record->external);
  if (auto* wait = std::get_if<WaitWork>(&work)) return wait_for_event(handle, wait->event, wait->external);
  if (std::holds_alternative<ChildWork>(work)) return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<CUstream_st> stream;
  if (CUresult error = resolve(handle, &stream); error != CUDA_SUCCESS) return error;
  std::unique_lock lock(capture_mutex());
  if (CUresult error = check_implicit(*stream); error != CUDA_SUCCESS) return error;
  if (stream->capture) return add_captured(*stream, std::move(work));
  std::string_view kind = kind_of(work);
  CUresult fault = injected_at_call(kind);
  if (fault != CUDA_SUCCESS && !stays_when_injected(fault)) return fault;
  std::optional<Promise> promise;
  if (auto* release = std::get_if<ReleaseWork>(&work)) {
    if (!promise.emplace(stream)) return CUDA_ERROR_OUT_OF_MEMORY;
    if (CUresult error = free_in_order(release); error != CUDA_SUCCESS) return error;
  }
  if (std::holds_alternative<EmptyWork>(work))
    return enqueue(stream, {}) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
  Task task;
  task.kind = kind;
  task.name = name_of(work);
  if (auto* host = std::get_if<HostWork>(&work)) {
    host->stream = handle;
    task.even_if_broken = host->callback != nullptr;
  }
  CUcontext context = stream->context;
  auto kept = std::make_shared<Work>(std::move(work));
  task.run = [kept, fault, context] {
    if (fault != CUDA_SUCCESS) return fail_as_asked(kind_of(*kept), fault, context);
    return run_slowed(*kept, context);
  };
  return enqueue(stream, std::move(task)) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult wait_for(CUstream handle) {
  std::shared_ptr<CUstream_st> stream;
  if (CUresult error = resolve(handle, &stream); error != CUDA_SUCCESS) return error;
  if (CUresult error = unsafe_while_capturing(); error != CUDA_SUCCESS) return error;
  {
    std::lock_guard lock(capture_mutex());
    if (CUresult error = refuse_while_captured(*stream); error != CUDA_SUCCESS) return error;
  }
  CUresult error = wait_for_marks(marks_of(stream), stream->context);
  pools_after_waiting();
  show_printed(stream->context);
  return error;
}

CUresult query_stream(CUstream handle) {
  std::shared_ptr<CUstream_st> stream;
  if (CUresult error = resolve(handle, &stream); error != CUDA_SUCCESS) return error;
  if (CUresult error = unsafe_while_capturing(); error != CUDA_SUCCESS) return error;
  std::lock_guard lock(capture_mutex());
  if (CUresult error = refuse_while_captured(*stream); error != CUDA_SUCCESS) return error;
  return marks_of(stream).empty() ? static_cast<CUresult>(stream->context->error.load())
                                  : CUDA_ERROR_NOT_READY;
}

CUresult wait_for_all(CUcontext context) {
  if (CUresult error = unsafe_while_capturing(); error != CUDA_SUCCESS) return error;
  CUresult error = wait_for_marks(marks_of_all(context), context);
  pools_after_waiting();
  show_printed(context);
  return error;
}

}  // namespace cropdl::device

extern "C" CUresult cropdl_software_gpu_enqueue(CUstream stream, const char* name,
                                                CUresult (*run)(void* data), void (*release)(void* data),
                                                void* data) {
  using namespace cropdl::device;
  CUcontext context = nullptr;
  if (CUresult error = enter(&context); error != CUDA_SUCCESS) return error;
  if (!run) return CUDA_ERROR_INVALID_VALUE;
  // Released with the last copy of the work, but not if the work was never accepted.
  struct Owned {
    void* data;
    void (*release)(void*);
    bool taken = false;
    ~Owned() {
      if (taken && release) release(data);
    }
  };
  auto owned = std::make_shared<Owned>(Owned{data, release});
  owned->taken = true;
  CUresult error = submit(stream, LibraryWork{name ? name : "", [owned, run] { return run(owned->data); }});
  if (error != CUDA_SUCCESS) owned->taken = false;
  return error;
}
