// Threads, children and their records.
#include <asm/unistd.h>
#include <linux/sched.h>

#include "interpose/seam/message.h"
#include "interpose/upper/core.h"
#include "interpose/upper/offsets.h"

static_assert(offsetof(cropdl::seam::ThreadRecord, clone_return) == THREAD_CLONE_RETURN);
static_assert(offsetof(cropdl::seam::ThreadRecord, clone_record) == THREAD_CLONE_RECORD);
static_assert(offsetof(cropdl::seam::ThreadRecord, clone_mask) == THREAD_CLONE_MASK);
static_assert(offsetof(cropdl::seam::ThreadRecord, vdso_frame) == THREAD_VDSO_FRAME);
static_assert(offsetof(cropdl::seam::ThreadRecord, sender_untranslated) == THREAD_SENDER_UNTRANSLATED);
static_assert(cropdl::seam::kState + offsetof(cropdl::seam::PersistentState, files) == STATE_FILES);
static_assert(cropdl::seam::kMaxDescriptors == STATE_MAX_FILES);
static_assert(cropdl::seam::kControlPage + offsetof(cropdl::seam::ControlPage, has_fsgsbase) ==
              CONTROL_HAS_FSGSBASE);

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
  raw(__NR_sigaltstack, as_word(&stack), 0);
}

bool claim(seam::ThreadRecord& record, int32_t use) {
  return __atomic_compare_exchange_n(&record.used, &use, seam::kLive, false, __ATOMIC_ACQ_REL,
                                     __ATOMIC_RELAXED);
}

// The record of a spawned child stays kLive: the thread that sets its tid to 0 claims it.
bool claim_over(seam::ThreadRecord& record, int32_t use) {
  const bool spawned = record.kind == seam::kSpawnedChild;
  int32_t tid = __atomic_load_n(&record.tid, __ATOMIC_ACQUIRE);
  // When the kernel does not know the id of a thread that left, its work is done (man 2 set_tid_address).
  // There is no other notice of the end of a child of clone(CLONE_VM).
  const bool may_be_over = spawned ? tid != 0 : use == seam::kLeaving;
  const int32_t process = spawned ? tid : seam::state()->kernel_pid;
  if (!may_be_over || raw(__NR_tgkill, process, tid, 0) != kNoSuchProcess) return false;
  if (!spawned) {
    if (!claim(record, use)) return false;
    // Another thread may have reused the record first, for a new thread that has already ended.
    if (__atomic_load_n(&record.tid, __ATOMIC_ACQUIRE) == tid) return true;
    __atomic_store_n(&record.used, seam::kLeaving, __ATOMIC_RELEASE);
    return false;
  }
  return __atomic_compare_exchange_n(&record.tid, &tid, 0, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
}

// Finds a free record, or one whose thread has ended. Each check for an end is a system call, so `looks`
// limits them. `any`: also a record whose old thread id is still to be translated (ids.cpp).
seam::ThreadRecord* find_record(int looks, bool any) {
  for (auto& record : seam::state()->threads) {
    const int32_t use = __atomic_load_n(&record.used, __ATOMIC_ACQUIRE);
    if (use != seam::kLive && !any && renames(record)) continue;
    if (use == seam::kFree) {
      if (claim(record, use)) return &record;
    } else if ((use == seam::kLeaving || record.kind == seam::kSpawnedChild) && looks > 0) {
      --looks;
      if (claim_over(record, use)) return &record;
    }
  }
  return nullptr;
}

seam::ThreadRecord* new_record() {
  auto* s = seam::state();
  constexpr int kFewLooks = 2;
  seam::ThreadRecord* record = find_record(kFewLooks, false);
  if (record == nullptr) record = find_record(seam::kMaxThreads, false);
  if (record == nullptr) record = find_record(seam::kMaxThreads, true);
  if (record != nullptr) {
    record->self = record;
    record->kind = seam::kOtherThread;
    record->upper_fs = record->clear_tid = record->robust_list = record->rseq = 0;
    record->masked_wait = record->sender_untranslated = record->vdso_frame = 0;
    record->nccl_group = record->caller = record->alternate_sp = record->alternate_size = 0;
    record->pinned = 0;
    record->handlers = 0;
    record->tid = record->virtual_tid = 0;
    record->inside = 0;
    record->held = 0;
    record->sending = 0;
    record->in_device_call = 0;
    record->alternate_flags = seam::kNoAlternateStack;
    record->pending[0] = record->pending[1] = 0;
    record->asked = 0;
    record->parked = 0;
    record->task = nullptr;
    record->cpu_before = 0;
    for (int64_t& word : record->usage_before) word = 0;
    if (!map_signal_stack(record)) {
      __atomic_store_n(&record->used, seam::kFree, __ATOMIC_RELEASE);
      return nullptr;
    }
    const auto high = static_cast<uint32_t>(record - s->threads) + 1;
    uint32_t known = s->threads_high;
    while (known < high && !__atomic_compare_exchange_n(&s->threads_high, &known, high, false,
                                                        __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
    }
    // After the claim: a scan that saw this record free and the counter unchanged has seen all threads.
    record->generation = __atomic_add_fetch(&s->threads_made, 1, __ATOMIC_SEQ_CST);
    return record;
  }
  say_once(
      kTooManyThreads,
      "cropdl: the program has 4095 threads; that is all that CropDL can keep, and one more gets EAGAIN\n");
  return nullptr;
}

}  // namespace

void say(const char* line) {
  const seam::ControlPage* page = seam::control();
  const auto write = [page](const char* text, long size) {
    if (page->message_fd >= 0) raw(__NR_write, page->message_fd, as_word(text), size);
  };
  long length = 0;
  while (line[length] != 0) ++length;
  if (page->messages_as_json == 0) return write(line, length);
  const seam::JsonLine json(line, raw(__NR_time, 0));
  write(json.text(), json.size());
}

void say_once(LineOnce which, const char* line) {
  if ((__atomic_fetch_or(&seam::state()->said, 1u << which, __ATOMIC_RELAXED) >> which & 1) == 0) say(line);
}

// GS base is reserved: the core and the gate find the thread's record by it.
long gs_call(const SystemCall& c) {
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

// man 2 rseq: the area where the kernel writes the processor's number and looks for a sequence to restart.
long rseq_call(const SystemCall& c) {
  const long result = pass_on(c);
  if (failed(result) || is_child()) return result;
  constexpr long kUnregister = 1;
  auto* t = seam::current_thread();
  t->rseq = (c.a[2] & kUnregister) != 0 ? 0 : static_cast<uint64_t>(c.a[0]);
  t->rseq_length = static_cast<uint32_t>(c.a[1]);
  t->rseq_signature = static_cast<uint32_t>(c.a[3]);
  return result;
}

bool is_spawned() { return seam::current_thread()->kind == seam::kSpawnedChild; }
bool is_child() { return seam::state()->forked != 0 || is_spawned(); }

// Returns 1: make the clone with a new stack; 2: without one; 0: it cannot be made (the result is in rax).
int prepare_clone(TrappedCall* call, uint64_t mask) {
  const SystemCall& c = call->call;
  const bool clone = c.nr == __NR_clone;
  const uint64_t flags = clone ? c.a[0] : c.nr == __NR_vfork ? CLONE_VM | CLONE_VFORK : 0;
  const uint64_t stack = clone ? c.a[1] : 0;
  auto* parent = seam::current_thread();
  seam::ThreadRecord* record = parent;  // fork: the same record in the child's copy of memory
  const bool shares_memory = (flags & CLONE_VM) != 0;
  if (shares_memory && (flags & CLONE_VFORK) == 0) {
    record = new_record();
    if (record == nullptr) {
      call->result() = kAgain;
      return 0;
    }
    if ((flags & CLONE_THREAD) == 0) record->kind = seam::kSpawnedChild;
  } else if (shares_memory) {
    record = &seam::state()->spawned;
    record->self = record;
    record->kind = seam::kSpawnedChild;
    record->masked_wait = record->sender_untranslated = record->vdso_frame = 0;
    record->alternate_sp = parent->alternate_sp;
    record->alternate_size = parent->alternate_size;
    record->alternate_flags = parent->alternate_flags;
  } else if ((flags & CLONE_FILES) != 0) {
    note_unseen(seam::kUnseenSharedTable);
  }
  if (shares_memory) record->shares_files = (flags & CLONE_FILES) != 0 ? 1 : 0;
  parent->clone_return = c.from;
  parent->clone_record = record;
  parent->clone_mask = mask;
  parent->clone_flags = record->clone_flags = static_cast<int32_t>(clone ? flags : 0);
  record->clone_child_tid = static_cast<uint64_t>(c.a[3]);
  record->clone_parent_tid = static_cast<uint64_t>(c.a[2]);
  if (stack == 0) return 2;
  // The kernel does not check the child's stack. Unless writable, the words go to a signal stack, unused now.
  constexpr int kWords = 4;
  auto* words = reinterpret_cast<uint64_t*>(stack) - kWords;
  const auto* owner = record >= seam::state()->threads ? record : parent;
  if (owner >= seam::state()->threads && !can_be_written(words, kWords * sizeof *words))
    words = reinterpret_cast<uint64_t*>(seam::signal_stack(owner) + seam::kSignalStackSize) - kWords;
  words[0] = reinterpret_cast<uint64_t>(record);
  words[1] = mask;
  words[2] = c.from;
  words[3] = stack;
  call->call.a[1] = as_word(words);
  return 1;
}

// In the suspend handler, all signals blocked, on the signal stack. Until the stop is over, the thread only
// runs the LH's tasks.
void wait_while_stopped(seam::ThreadRecord* t) {
  auto* page = seam::control();
  const uint32_t stop = page->stop;
  const auto is_over = [&] { return static_cast<int32_t>(page->released - stop) >= 0; };
  if (is_over()) return;
  __atomic_store_n(&t->parked, stop, __ATOMIC_SEQ_CST);
  for (;;) {
    const uint32_t wakes = __atomic_load_n(&t->wake, __ATOMIC_SEQ_CST);
    if (is_over()) return;
    if (auto* task = t->task; task != nullptr) {
      task(t);
      __atomic_store_n(&t->task, nullptr, __ATOMIC_SEQ_CST);
      continue;
    }
    constexpr int kWaitPrivate = 128;  // FUTEX_WAIT_PRIVATE
    raw(__NR_futex, as_word(&t->wake), kWaitPrivate, wakes, 0);
  }
}

// The kernel's work at a thread's end (man 2 set_tid_address, get_robust_list). The kernel thread stays with
// the LH: no other may call MPI (MPI_THREAD_FUNNELED), and a process without it could not be made again.
[[noreturn]] static void leave_main_thread(seam::ThreadRecord* t, const SystemCall& c) {
  release_held_futexes(t);
  t->gone = 1;
  const int32_t ended = 0;
  constexpr int kWake = 1;  // not private: the kind of the program's wait is unknown
  if (t->clear_tid != 0 && copy_out(static_cast<long>(t->clear_tid), ended))
    raw(__NR_futex, static_cast<long>(t->clear_tid), kWake, 1);
  if (!seam::has_more_threads()) leave_process(c);
  t->pinned = t->pinned + 1;
  call_on_lower(reinterpret_cast<void*>(seam::control()->stay), t, c.a[0]);
  for (;;) raw(__NR_exit_group, c.a[0]);
}

// Replaces the id that the kernel wrote for the parent. A thread that has run has already done so
// (cropdl_child_begins). If it has ended since, the same word reports that and is kept.
static void tell_parent(long where, int flags, int32_t real, int32_t told) {
  if ((flags & CLONE_THREAD) == 0) {
    copy_out(where, told);
  } else if (auto* word = reinterpret_cast<int32_t*>(where); can_be_written(word, sizeof *word)) {
    __atomic_compare_exchange_n(word, &real, told, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
  }
}

long leave_thread(const SystemCall& c) {
  auto* t = seam::current_thread();
  if (is_child()) return raw(__NR_exit, c.a[0]);
  if (t->kind == seam::kMainThread) leave_main_thread(t, c);
  // The kernel would look for its own id in futexes that the thread holds. And a thread that checks whether
  // an owner is alive (futexes.cpp) must not find one that has left and still holds a futex.
  if (seam::control()->restarted != 0) release_held_futexes(t);
  constexpr int kBoottime = 7;
  int64_t now[2] = {};
  raw(__NR_clock_gettime, kBoottime, as_word(now));
  t->left = static_cast<uint64_t>(now[0]) * 1'000'000'000u + static_cast<uint64_t>(now[1]);
  __atomic_store_n(&t->used, seam::kLeaving, __ATOMIC_SEQ_CST);
  if (seam::state()->threads[0].gone != 0 && !seam::has_more_threads()) leave_process(c);
  return raw(__NR_exit, c.a[0]);
}

long leave_process(const SystemCall& c) {
  auto* t = seam::current_thread();
  if (!is_child()) {
    t->pinned = t->pinned + 1;
    if (t->lower_fs == 0) seam::control()->lend_lower_fs(t);
    call_on_lower(reinterpret_cast<void*>(seam::control()->leave), t, c.a[0]);
  }
  return raw(__NR_exit_group, c.a[0]);
}

}  // namespace cropdl::upper

// The parent's return from clone, fork and vfork: rax is the result, and all signals are blocked.
extern "C" void cropdl_parent_goes_on(cropdl::upper::TrappedCall* call) {
  using namespace cropdl;
  auto* parent = seam::current_thread();
  const uint64_t mask = parent->clone_mask;
  auto* record = parent->clone_record;
  call->call.from = parent->clone_return;
  if (upper::failed(call->result()) && record >= seam::state()->threads && record != parent)
    __atomic_store_n(&record->used, seam::kFree, __ATOMIC_RELEASE);
  const int flags = parent->clone_flags;
  if (call->result() > 0 && (flags & CLONE_THREAD) != 0 && (flags & CLONE_FILES) == 0)
    upper::note_unseen(seam::kUnseenOwnTable);
  if (call->result() > 0) {  // the program may know this number for another process (ids.cpp)
    const auto told = static_cast<int32_t>(upper::to_virtual_pid(call->result()));
    if (told != call->result() && (flags & CLONE_PARENT_SETTID) != 0)
      upper::tell_parent(call->call.a[2], flags, static_cast<int32_t>(call->result()), told);
    call->result() = told;
  }
  upper::set_signal_mask(mask);
}

// Runs first in a child, before it returns to the program. GS base is its record; all signals are blocked.
extern "C" void cropdl_child_begins(uint64_t mask) {
  using namespace cropdl;
  auto* t = seam::current_thread();
  auto* s = seam::state();
  const auto id = static_cast<int32_t>(upper::raw(__NR_gettid));
  const auto told = static_cast<int32_t>(upper::to_virtual_pid(id));
  if (told != id && (t->clone_flags & CLONE_CHILD_SETTID) != 0)
    upper::copy_out(static_cast<long>(t->clone_child_tid), told);
  // glibc's threads read their own id there, and may run before the parent returns.
  constexpr int kThreadTold = CLONE_THREAD | CLONE_PARENT_SETTID;
  if (told != id && (t->clone_flags & kThreadTold) == kThreadTold)
    upper::copy_out(static_cast<long>(t->clone_parent_tid), told);
  // tid is 0 in a record of new_record(); the kernel gave the thread no signal stack.
  if (t >= s->threads && t->kind != seam::kMainThread && t->tid == 0) {
    upper::use_signal_stack(t);
    if ((t->clone_flags & CLONE_CHILD_CLEARTID) != 0) t->clear_tid = t->clone_child_tid;
    t->virtual_tid = told;
    __atomic_store_n(&t->tid, id, __ATOMIC_SEQ_CST);
  } else if (t->kind != seam::kSpawnedChild) {
    // fork: this memory is the child's own. Only the first child has the LH's descriptors to close. In a
    // grandchild they are closed already, and their numbers may be its parent's own files.
    if (s->forked == 0) upper::close_lower_files();
    s->forked = 1;
  }
  upper::set_signal_mask(mask);
}
