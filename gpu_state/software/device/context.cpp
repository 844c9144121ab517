#include "gpu_state/software/device/context.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/format.h"
#include "base/say.h"
#include "gpu_state/software/device/callbacks.h"
#include "gpu_state/software/device/device.h"
#include "gpu_state/software/device/of_thread.h"

namespace cropdl::device {

namespace {

struct Contexts {
  std::mutex mutex;
  std::unordered_set<CUcontext> ever;  // including destroyed ones
  std::map<Device*, CUcontext> primary;
  std::vector<std::pair<Keeper, void (*)(CUcontext)>> keepers;
  uint64_t next_id = 1;
};
Contexts& contexts() {
  static auto& all = *new Contexts;
  return all;
}

std::vector<CUcontext>& stack() {
  struct Stack : std::vector<CUcontext> {};
  return OfThread<Stack>::get();
}

// The initial values of cuCtxGetLimit: the driver's documented and usual ones.
void begin_life(CUcontext context, uint64_t id) {
  for (auto& limit : context->limits) limit.store(0);
  context->limits[CU_LIMIT_STACK_SIZE].store(1024);
  context->limits[CU_LIMIT_PRINTF_FIFO_SIZE].store(1 << 20);
  context->limits[CU_LIMIT_MALLOC_HEAP_SIZE].store(8 << 20);
  context->limits[CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH].store(2);
  context->limits[CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT].store(2048);
  context->limits[CU_LIMIT_MAX_L2_FETCH_GRANULARITY].store(64);
  context->cache.store(CU_FUNC_CACHE_PREFER_NONE);
  context->id.store(id);
  context->alive.store(true);
}

// Without the lock, since the registered functions wait for threads that call back here.
void end_life(CUcontext context) {
  std::vector<std::pair<Keeper, void (*)(CUcontext)>> keepers;
  {
    std::lock_guard lock(contexts().mutex);
    keepers = contexts().keepers;
  }
  for (auto& [keeper, give_back] : keepers) give_back(context);
}

}  // namespace

CUcontext current() { return stack().empty() ? nullptr : stack().back(); }

CUcontext& working_for() {
  thread_local CUcontext context = nullptr;
  return context;
}

void set_current(CUcontext context) {
  if (!stack().empty()) stack().pop_back();
  if (context) stack().push_back(context);
}

void push(CUcontext context) { stack().push_back(context); }

CUresult pop(CUcontext* context) {
  if (stack().empty()) return CUDA_ERROR_INVALID_CONTEXT;
  if (context) *context = stack().back();
  stack().pop_back();
  return CUDA_SUCCESS;
}

CUresult initialized() {
  // inside a function of cuLaunchHostFunc, API calls are forbidden
  if (inside_callback()) return CUDA_ERROR_NOT_PERMITTED;
  return count() ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED;
}

CUresult check(CUcontext context) {
  {
    std::lock_guard lock(contexts().mutex);
    if (!contexts().ever.count(context)) return CUDA_ERROR_INVALID_CONTEXT;
  }
  if (!context->alive.load()) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  return static_cast<CUresult>(context->error.load());
}

CUresult enter_even_if_broken(CUcontext* context) {
  if (CUresult error = initialized()) return error;
  *context = current();
  if (!*context) return CUDA_ERROR_INVALID_CONTEXT;
  return (*context)->alive.load() ? CUDA_SUCCESS : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

CUresult enter(CUcontext* context) {
  if (CUresult error = enter_even_if_broken(context)) return error;
  return static_cast<CUresult>((*context)->error.load());
}

void break_context(CUcontext context, CUresult error, std::string_view why) {
  int none = 0;
  if (context->error.compare_exchange_strong(none, error))
    say(formatted("software GPU: device {} is broken for this process (error {}): {}",
                  context->device->ordinal, static_cast<int>(error), why));
}

bool when_a_context_ends(Keeper who, void (*give_back)(CUcontext context)) {
  std::lock_guard lock(contexts().mutex);
  auto& keepers = contexts().keepers;
  keepers.emplace_back(who, give_back);
  std::stable_sort(keepers.begin(), keepers.end(), [](auto& a, auto& b) { return a.first < b.first; });
  return true;
}

CUresult create_context(Device& device, unsigned flags, CUcontext* context) {
  auto* made = new CUctx_st;  // never deleted, see context.h
  made->device = &device;
  made->flags.store(flags);
  {
    std::lock_guard lock(contexts().mutex);
    contexts().ever.insert(made);
    begin_life(made, contexts().next_id++);
  }
  push(made);
  *context = made;
  return CUDA_SUCCESS;
}

CUresult destroy_context(CUcontext context) {
  CUresult state = check(context);
  if (state == CUDA_ERROR_INVALID_CONTEXT || state == CUDA_ERROR_CONTEXT_IS_DESTROYED) return state;
  if (context->is_primary) return CUDA_ERROR_INVALID_CONTEXT;
  if (!context->alive.exchange(false)) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  end_life(context);
  // "If ctx is current to the calling thread then ctx will also be popped"; in other threads it stays
  // current, but destroyed.
  if (current() == context) stack().pop_back();
  return CUDA_SUCCESS;
}

CUcontext primary_of(Device& device) {
  std::lock_guard lock(contexts().mutex);
  CUcontext& primary = contexts().primary[&device];
  if (!primary) {
    primary = new CUctx_st;
    primary->device = &device;
    primary->is_primary = true;
  }
  return primary;
}

CUresult retain_primary(Device& device, CUcontext* context) {
  CUcontext primary = primary_of(device);
  std::lock_guard life(primary->life);
  std::lock_guard lock(contexts().mutex);
  contexts().ever.insert(primary);
  if (!primary->alive.load()) begin_life(primary, contexts().next_id++);
  ++primary->retained;
  *context = primary;
  return CUDA_SUCCESS;
}

CUresult release_primary(Device& device) {
  CUcontext primary = primary_of(device);
  std::lock_guard life(primary->life);
  if (primary->retained == 0) return CUDA_ERROR_INVALID_CONTEXT;
  if (--primary->retained == 0 && primary->alive.exchange(false)) end_life(primary);
  return CUDA_SUCCESS;
}

CUresult reset_primary(Device& device) {
  CUcontext primary = primary_of(device);
  std::lock_guard life(primary->life);
  if (primary->alive.exchange(false)) end_life(primary);
  return CUDA_SUCCESS;
}

}  // namespace cropdl::device
