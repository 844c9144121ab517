// Threads, children and ids of the program.
#include <asm/unistd.h>
#include <linux/sched.h>

#include "interpose/upper/core.h"
#include "interpose/upper/offsets.h"

static_assert(offsetof(cropdl::seam::ThreadRecord, lower_fs) == THREAD_LOWER_FS);
static_assert(offsetof(cropdl::seam::ThreadRecord, lower_sp) == THREAD_LOWER_SP);
static_assert(offsetof(cropdl::seam::ThreadRecord, clone_return) == THREAD_CLONE_RETURN);
static_assert(offsetof(cropdl::seam::ThreadRecord, clone_record) == THREAD_CLONE_RECORD);
static_assert(offsetof(cropdl::seam::ThreadRecord, clone_mask) == THREAD_CLONE_MASK);
static_assert(offsetof(cropdl::seam::ThreadRecord, vdso_frame) == THREAD_VDSO_FRAME);
static_assert(cropdl::seam::kState + offsetof(cropdl::seam::PersistentState, files) == STATE_FILES);
static_assert(cropdl::seam::kMaxDescriptors == STATE_MAX_FILES);

extern "C" long cropdl_on_lower(void* fn, cropdl::seam::ThreadRecord*, long argument);

namespace cropdl::upper {
namespace {

bool map_signal_stack(const seam::ThreadRecord* t) {
  constexpr long kReadWrite = 3, kPrivateAnonymousFixed = 0x100022;  // MAP_FIXED_NOREPLACE
  const auto at = static_cast<long>(seam::signal_stack(t));
  const long result = raw(__NR_mmap, at, seam::kSignalStackSize, kReadWrite, kPrivateAnonymousFixed, -1, 0);
  return result == at || result == kExists;  // left by a former thread
}

void use_signal_stack(const seam::ThreadRecord* t) {
  const stack_t stack = {reinterpret_cast<void*>(seam::signal_stack(t)), 0, seam::kSignalStackSize};
  raw(__NR_sigaltstack, reinterpret_cast<long>(&stack), 0);
}

// Records of children made by clone(CLONE_VM) are free when the child has ended; nobody says so.
void free_records_of_ended_children() {
  for (auto& record : seam::state()->threads)
    if (record.used != 0 && record.kind == seam::kSpawnedChild && record.tid != 0 &&
        raw(__NR_tgkill, record.tid, record.tid, 0) == kNoSuchProcess)
      __atomic_store_n(&record.used, 0, __ATOMIC_RELEASE);
}

seam::ThreadRecord* new_record(bool swept = false) {
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
    record.vdso_frame = 0;
    record.alternate_sp = record.alternate_size = 0;
    record.alternate_flags = seam::kNoAlternateStack;
    if (map_signal_stack(&record)) return &record;
    __atomic_store_n(&record.used, 0, __ATOMIC_RELEASE);
    return nullptr;
  }
  if (!swept) {
    free_records_of_ended_children();
    return new_record(true);
  }
  say_once(
      kTooManyThreads,
      "cropdl: the program has 4095 threads; that is all that CropDL can keep, and one more gets EAGAIN\n");
  return nullptr;
}

}  // namespace

void say_once(Line which, const char* line) {
  if ((__atomic_fetch_or(&seam::state()->said, 1u << which, __ATOMIC_RELAXED) >> which & 1) != 0) return;
  long length = 0;
  while (line[length] != 0) ++length;
  if (seam::control()->message_fd >= 0)
    raw(__NR_write, seam::control()->message_fd, reinterpret_cast<long>(line), length);
}

// GS base is how the core and the gate find the thread's record.
long gs_call(const Call& c) {
  constexpr int kSetGs = 0x1001;  // ARCH_SET_GS
  if (static_cast<int>(c.a[0]) == kSetGs) {
    say_once(kGsIsTaken,
             "cropdl: the program sets its GS base (arch_prctl ARCH_SET_GS), which CropDL needs: it is told "
             "EPERM; run it without cropdl-run\n");
    return kNotPermitted;
  }
  const uint64_t none = 0;  // ARCH_GET_GS
  return copy_out(c.a[1], none) ? 0 : kBadAddress;
}

bool is_spawned() { return seam::current_thread()->kind == seam::kSpawnedChild; }
bool is_child() { return seam::state()->forked != 0 || is_spawned(); }

// 1: to be made with a new stack, 2: without one, 0: cannot be made (the result is in rax).
int prepare_clone(TrappedCall* call, uint64_t mask) {
  const bool clone = call->rax == __NR_clone;
  const uint64_t flags = clone ? call->rdi : call->rax == __NR_vfork ? CLONE_VM | CLONE_VFORK : 0;
  const uint64_t stack = clone ? call->rsi : 0;
  auto* parent = seam::current_thread();
  seam::ThreadRecord* record = parent;  // fork: the same record in its own copy of memory
  const bool shares_memory = (flags & CLONE_VM) != 0;
  if (shares_memory && (flags & CLONE_VFORK) == 0) {
    record = new_record();
    if (record == nullptr) {
      call->rax = kAgain;
      return 0;
    }
    if ((flags & CLONE_THREAD) == 0) record->kind = seam::kSpawnedChild;
  } else if (shares_memory) {
    record = &seam::state()->spawned;
    record->self = record;
    record->kind = seam::kSpawnedChild;
    record->vdso_frame = 0;
    record->alternate_sp = parent->alternate_sp;
    record->alternate_size = parent->alternate_size;
    record->alternate_flags = parent->alternate_flags;
  } else if ((flags & CLONE_FILES) != 0) {
    __atomic_fetch_or(&seam::state()->unseen, seam::kUnseenSharedTable, __ATOMIC_RELAXED);
  }
  if (shares_memory) record->shares_files = (flags & CLONE_FILES) != 0 ? 1 : 0;
  parent->clone_return = call->rcx;
  parent->clone_record = record;
  parent->clone_mask = mask;
  parent->clone_flags = record->clone_flags = static_cast<int32_t>(clone ? flags : 0);
  record->clone_child_tid = static_cast<uint64_t>(call->r10);
  if (stack == 0) return 2;
  // The kernel does not care whether the child's stack is one. Where it is none, the words lie on a signal
  // stack, which nobody uses as long as all signals are blocked.
  constexpr int kWords = 4;
  auto* words = reinterpret_cast<uint64_t*>(stack) - kWords;
  const auto* owner = record >= seam::state()->threads ? record : parent;
  if (owner >= seam::state()->threads && !can_be_written(words, kWords * sizeof *words)) {
    words = reinterpret_cast<uint64_t*>(seam::signal_stack(owner) + seam::kSignalStackSize) - kWords;
  }
  words[0] = reinterpret_cast<uint64_t>(record);
  words[1] = mask;
  words[2] = call->rcx;
  words[3] = stack;
  call->rsi = reinterpret_cast<long>(words);
  return 1;
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

// The parent's way back from clone, fork and vfork: rax is the result, and all signals are blocked.
extern "C" void cropdl_parent_goes_on(cropdl::upper::TrappedCall* call) {
  using namespace cropdl;
  auto* parent = seam::current_thread();
  const uint64_t mask = parent->clone_mask;
  auto* record = parent->clone_record;
  call->rcx = parent->clone_return;
  if (upper::failed(call->rax) && record >= seam::state()->threads && record != parent)
    __atomic_store_n(&record->used, 0, __ATOMIC_RELEASE);
  const int flags = parent->clone_flags;
  if (call->rax > 0 && (flags & CLONE_THREAD) != 0 && (flags & CLONE_FILES) == 0)
    __atomic_fetch_or(&seam::state()->unseen, seam::kUnseenOwnTable, __ATOMIC_RELAXED);
  if (call->rax > 0) {  // it may be one that the program knows for something else (ids.cpp)
    const auto told = static_cast<int32_t>(upper::told_process(call->rax));
    if (told != call->rax && (flags & CLONE_PARENT_SETTID) != 0) upper::copy_out(call->rdx, told);
    call->rax = told;
  }
  upper::set_signal_mask(mask);
}

// First thing in a child, before it returns to the program; GS base is its record, and all signals are
// blocked.
extern "C" void cropdl_child_begins(uint64_t mask) {
  using namespace cropdl;
  auto* t = seam::current_thread();
  auto* s = seam::state();
  const auto id = static_cast<int32_t>(upper::raw(__NR_gettid));
  const auto told = static_cast<int32_t>(upper::told_process(id));
  if (told != id && (t->clone_flags & CLONE_CHILD_SETTID) != 0)
    upper::copy_out(static_cast<long>(t->clone_child_tid), told);
  if (t >= s->threads && t->kind != seam::kMainThread &&
      t->tid == 0) {  // new_record's; the kernel gave it no stack
    upper::use_signal_stack(t);
    t->tid = id;
    t->upper_tid = told;
  } else if (t->kind != seam::kSpawnedChild) {
    s->forked = 1;  // fork: this memory is the child's own
    upper::close_lower_files();
  }
  upper::set_signal_mask(mask);
}
