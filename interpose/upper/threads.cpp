// Threads, children and ids of the program.
#include <asm/unistd.h>
#include <linux/sched.h>

#include "interpose/upper/core.h"
#include "interpose/upper/offsets.h"

static_assert(offsetof(cropdl::seam::ThreadRecord, lower_fs) == THREAD_LOWER_FS);
static_assert(offsetof(cropdl::seam::ThreadRecord, lower_sp) == THREAD_LOWER_SP);
static_assert(offsetof(cropdl::seam::ThreadRecord, clone_return) == THREAD_CLONE_RETURN);
static_assert(offsetof(cropdl::seam::ThreadRecord, clone_record) == THREAD_CLONE_RECORD);

extern "C" {
void cropdl_core_clone();
void cropdl_core_fork();
long cropdl_on_lower(void* fn, cropdl::seam::ThreadRecord*, long argument);
}

namespace cropdl::upper {
namespace {

constexpr long kAgain = -11;  // EAGAIN

seam::ThreadRecord* new_record() {
  for (auto& record : seam::state()->threads) {
    int32_t expected = 0;
    if (!__atomic_compare_exchange_n(&record.used, &expected, 1, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
      continue;
    record.self = &record;
    record.kind = seam::kOtherThread;
    record.upper_fs = record.clear_tid = record.robust_list = 0;
    record.pinned = 0;
    record.handlers = 0;
    record.tid = 0;
    return &record;
  }
  return nullptr;
}

}  // namespace

bool is_spawned() { return seam::current_thread()->kind == seam::kSpawnedChild; }
bool is_child() { return seam::state()->forked != 0 || is_spawned(); }

// The call is not made here, in a signal frame, but by the core's thunk after the handler has returned.
long clone_call(const Call& c, ucontext_t* context) {
  if (context == nullptr) return -38;  // ENOSYS: never patched
  auto* g = context->uc_mcontext.gregs;
  const uint64_t flags = c.nr == __NR_clone ? c.a[0] : c.nr == __NR_vfork ? CLONE_VM | CLONE_VFORK : 0;
  auto* parent = seam::current_thread();
  seam::ThreadRecord* record = parent;  // fork: the same record in its own copy of memory
  if ((flags & CLONE_THREAD) != 0) {
    record = new_record();
    if (record == nullptr) return kAgain;
  } else if ((flags & CLONE_VM) != 0) {
    record = &seam::state()->spawned;
    record->self = record;
    record->kind = seam::kSpawnedChild;
  }
  parent->clone_return = g[REG_RIP];
  parent->clone_record = record;
  uint64_t stack = c.nr == __NR_clone ? c.a[1] : 0;
  if (stack != 0) {
    auto* words = reinterpret_cast<uint64_t*>(stack) - 2;
    words[0] = reinterpret_cast<uint64_t>(record);
    words[1] = g[REG_RIP];
    g[REG_RSI] = reinterpret_cast<greg_t>(words);
    g[REG_RIP] = reinterpret_cast<greg_t>(cropdl_core_clone);
  } else {
    g[REG_RIP] = reinterpret_cast<greg_t>(cropdl_core_fork);
  }
  return c.nr;  // rax of the resumed context: the thunk makes the call
}

long leave_thread(const Call& c) {
  auto* t = seam::current_thread();
  if (!is_child() && t->kind == seam::kOtherThread) {
    // Mark it free in one step with the exit: nothing of the record is used after this.
    __atomic_store_n(&t->used, 0, __ATOMIC_RELEASE);
  }
  return raw(__NR_exit, c.a[0]);
}

long leave_process(const Call& c) {
  auto* main = &seam::state()->threads[0];
  if (!is_child() && seam::current_thread() == main) {
    main->pinned = main->pinned + 1;
    cropdl_on_lower(reinterpret_cast<void*>(seam::control()->leave), main, c.a[0]);
  }
  return raw(__NR_exit_group, c.a[0]);
}

}  // namespace cropdl::upper

// First thing in a child, before it returns to the program; GS base is its record.
extern "C" void cropdl_child_begins() {
  using namespace cropdl;
  auto* t = seam::current_thread();
  if (t->kind == seam::kSpawnedChild) return;
  if (t->kind == seam::kOtherThread && t->tid == 0) {
    t->tid = t->upper_tid = static_cast<int32_t>(upper::raw(__NR_gettid));
    return;
  }
  auto* s = seam::state();
  s->forked = 1;  // fork: this memory is the child's own
  // The LH's sockets and its store's lock must not live on in a child. The program's own high descriptors
  // stay.
  constexpr unsigned kFirst = seam::kFirstLowerFile;
  for (unsigned i = kFirst / 64 + 1; i < seam::kMaxFiles / 64; ++i)
    if (s->files[i] != 0) return;
  if (s->files[kFirst / 64] >> (kFirst % 64) == 0) upper::raw(__NR_close_range, kFirst, ~0u, 0);
}
