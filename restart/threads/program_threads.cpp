#include "restart/threads/program_threads.h"

#include <linux/futex.h>
#include <linux/kcmp.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <ctime>
#include <functional>

#include "base/file.h"
#include "base/format.h"
#include "base/json.h"
#include "base/procfs.h"
#include "interpose/seam/control_page.h"
#include "interpose/seam/thread.h"
#include "interpose/upper/raw.h"
#include "restart/process/clocks.h"
#include "restart/threads/tls_block.h"

extern "C" {
long cropdl_clone_thread(uint64_t flags, uint64_t stack, int32_t* tid, void (*)(cropdl::seam::ThreadRecord*),
                         cropdl::seam::ThreadRecord*);
[[noreturn]] void cropdl_continue(uint64_t context, uint64_t fs, cropdl::seam::ThreadRecord*);
}

namespace cropdl::program_threads {
namespace {

using seam::ThreadRecord;

template <class Visit>
void each_thread(Visit visit) {
  auto* s = seam::state();
  for (uint32_t i = 1; i < s->threads_high; ++i)
    if (s->threads[i].kind == seam::kOtherThread && s->threads[i].used == seam::kLive) visit(s->threads[i]);
}

void wake(ThreadRecord& t) {
  __atomic_fetch_add(&t.wake, 1, __ATOMIC_SEQ_CST);
  syscall(SYS_futex, &t.wake, FUTEX_WAKE_PRIVATE, INT_MAX);
}

// Returns whether a leaving thread has ended. Its tid may belong to a newer thread by now, of the program or
// of the LH, which has a later start time (man 5 proc_pid_stat, starttime).
bool is_gone(const ThreadRecord& t) {
  if (syscall(SYS_tgkill, getpid(), t.tid, 0) != 0) return errno == ESRCH;
  static const uint64_t tick = 1'000'000'000ull / static_cast<uint64_t>(sysconf(_SC_CLK_TCK));
  const std::string began = process_stat(formatted("self/task/{}", t.tid), 22);
  return !began.empty() && strtoull(began.c_str(), nullptr, 10) > t.left / tick;
}

bool queue_suspend_signal(pid_t tid) {
  siginfo_t info{};
  info.si_code = SI_QUEUE;
  info.si_value.sival_ptr = reinterpret_cast<void*>(seam::kSuspendMagic);
  return syscall(SYS_rt_tgsigqueueinfo, getpid(), tid, seam::kSuspendSignal, &info) == 0;
}

std::string name_of(const ThreadRecord& t, const std::string& comm) {
  return formatted("thread {} ({})", t.virtual_tid, comm);
}

// --- Runs LH code on a program thread that is parked or was just created, for system calls that concern only
// the calling thread. One thread at a time borrows the TLS block and stack of a lending thread.

struct Borrowed {
  uint64_t fs = 0, stack = 0;
};
Borrowed borrowed;

void* lend(void*) {
  lend_block_to(0);
  borrowed.stack = (reinterpret_cast<uint64_t>(__builtin_frame_address(0)) - 4096) & ~15ull;
  __atomic_store_n(&borrowed.fs, seam::by_kernel::fs_base(), __ATOMIC_SEQ_CST);
  rest_for_ever();
}

Status have_block() {
  if (borrowed.fs != 0) return {};
  constexpr size_t kStack = 512 << 10;
  void* stack = mmap(nullptr, kStack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
  const int error = stack == MAP_FAILED ? errno : start_thread(lend, nullptr, stack, kStack);
  if (error != 0) return Error{"cannot start a thread of the lower half: " + errno_text(error)};
  while (__atomic_load_n(&borrowed.fs, __ATOMIC_SEQ_CST) == 0) sched_yield();
  return {};
}

struct Work {
  const std::function<void()>* run;
  uint32_t done;
};

void run_work(void* argument, long) { (*static_cast<Work*>(argument)->run)(); }

// With the thread's own FS base, on its signal stack: uses no C library.
__attribute__((optimize("no-stack-protector"))) void begin_work(ThreadRecord* t) {
  auto* work = reinterpret_cast<Work*>(t->task_argument);
  seam::call_on_stack(reinterpret_cast<void*>(run_work), work, 0, borrowed.fs, borrowed.stack);
  __atomic_store_n(&work->done, 1u, __ATOMIC_SEQ_CST);
  upper::raw(SYS_futex, reinterpret_cast<long>(&work->done), FUTEX_WAKE_PRIVATE, INT_MAX);
}

void run_on(ThreadRecord& t, const std::function<void()>& run) {
  Work work{&run, 0};
  t.task_argument = reinterpret_cast<uint64_t>(&work);
  __atomic_store_n(&t.task, &begin_work, __ATOMIC_SEQ_CST);
  wake(t);
  while (__atomic_load_n(&work.done, __ATOMIC_SEQ_CST) == 0)
    syscall(SYS_futex, &work.done, FUTEX_WAIT_PRIVATE, 0, nullptr);
  // The thread uses `work` until it clears its task.
  while (__atomic_load_n(&t.task, __ATOMIC_SEQ_CST) != nullptr) sched_yield();
}

// Returns whether the calling thread shares directories and umask with thread `main`. Without kcmp (an old
// kernel, or a container that forbids it), compares the values.
bool shares_directories(pid_t main) {
  const auto own = static_cast<pid_t>(syscall(SYS_gettid));
  const long compared = syscall(SYS_kcmp, main, own, KCMP_FS, 0, 0);
  if (compared >= 0) return compared == 0;
  const auto values = [](pid_t tid) {
    std::string all;
    for (const char* const link : {"cwd", "root"})
      all += link_text(formatted("/proc/self/task/{}/{}", tid, link)) + '\n';
    return all + status_field(kernel_text(formatted("/proc/self/task/{}/status", tid)), "Umask");
  };
  return values(main) == values(own);
}

struct Seen {
  SavedThread saved;
  std::string refusal;
};

// Runs on the thread itself.
Seen look(const ThreadRecord& t, const process::AttributeValues& mains, pid_t main) {
  Seen seen;
  SavedThread& s = seen.saved;
  s.record = static_cast<uint32_t>(&t - seam::state()->threads);
  char name[17] = {};
  prctl(PR_GET_NAME, name);
  s.name = name;
  auto differing = process::differing_attributes(mains);
  if (!differing) {
    seen.refusal = name_of(t, s.name) + " " + differing.error().message;
    return seen;
  }
  s.attributes = std::move(*differing);
  if (!shares_directories(main)) {
    seen.refusal =
        name_of(t, s.name) +
        " has a directory and a mask of file modes of its own (unshare, clone), which cannot be saved yet";
    return seen;
  }
  timespec cpu{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &cpu);
  s.cpu = cpu.tv_sec * 1'000'000'000 + cpu.tv_nsec + t.cpu_before;
  s.usage = process::usage_of_thread(t.usage_before);
  return seen;
}

// Keeps signal stacks of ended threads out of the image. The core maps them again.
void give_back_signal_stacks() {
  auto* s = seam::state();
  for (uint32_t i = 1; i < s->threads_high; ++i)
    if (s->threads[i].used == seam::kFree && s->threads[i].self != nullptr)
      munmap(reinterpret_cast<void*>(seam::signal_stack(&s->threads[i])), seam::kSignalStackSize),
          s->threads[i].self = nullptr;
}

// --- Threads created again. Until go_on_with_threads() they run here, without a C library.

enum Gate : uint32_t { kShut, kOpen, kEnd };
uint32_t gate;

__attribute__((optimize("no-stack-protector"))) void begin_thread(ThreadRecord* t) {
  register_rseq(t);
  if (t->clear_tid != 0) upper::raw(SYS_set_tid_address, static_cast<long>(t->clear_tid));
  if (t->robust_list != 0)
    upper::raw(SYS_set_robust_list, static_cast<long>(t->robust_list), static_cast<long>(t->robust_size));
  for (;;) {
    const uint32_t wakes = __atomic_load_n(&t->wake, __ATOMIC_SEQ_CST);
    if (auto* task = t->task; task != nullptr) {
      task(t);
      __atomic_store_n(&t->task, nullptr, __ATOMIC_SEQ_CST);
      continue;
    }
    if (__atomic_load_n(&gate, __ATOMIC_SEQ_CST) == kOpen) break;
    upper::raw(SYS_futex, reinterpret_cast<long>(&t->wake), FUTEX_WAIT_PRIVATE, wakes, 0);
  }
  cropdl_continue(t->context, t->stopped_fs, t);
}

__attribute__((optimize("no-stack-protector"))) void end_thread(ThreadRecord*) {
  while (__atomic_load_n(&gate, __ATOMIC_SEQ_CST) != kEnd)
    upper::raw(SYS_futex, reinterpret_cast<long>(&gate), FUTEX_WAIT_PRIVATE, kShut, 0);
  upper::raw(SYS_exit, 0);
}

constexpr size_t kFirstStack = 16 << 10;  // for begin_thread; run_on's work uses the lending thread's stack

// Maps one block for all first stacks. Each thread uses a few words of its own until it continues.
Result<uint64_t> first_stacks(size_t count) {
  void* p = mmap(nullptr, count * kFirstStack, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) return Error{"cannot have memory for the program's threads: " + errno_text(errno)};
  return reinterpret_cast<uint64_t>(p);
}

constexpr uint64_t kThread = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM;

Error cannot_make(size_t made, size_t count, long error) {
  return Error{
      formatted("the program has {} threads, and no more than {} can be had here: {} (ulimit -u, or the pids "
                "limit of a batch system)",
                count + 1, made + 1, errno_text(static_cast<int>(-error)))};
}

}  // namespace

void begin_thread_stop() {
  auto* page = seam::writable_control;
  if (page->stop == page->released) {
    __atomic_store_n(&page->stop, page->stop + 1, __ATOMIC_SEQ_CST);
    return;
  }
  // The main thread has not released the previous stop yet. A thread asked during that stop may have left the
  // LH while no stop was requested, so all are asked again.
  auto* s = seam::state();
  for (uint32_t i = 0; i < s->threads_high || i == 0; ++i)
    __atomic_store_n(&s->threads[i].asked, 0, __ATOMIC_SEQ_CST);
}

bool stop_threads() {
  auto* s = seam::state();
  const uint32_t stop = seam::control()->stop;
  const uint32_t made = __atomic_load_n(&s->threads_made, __ATOMIC_SEQ_CST);
  bool all = true;
  for (uint32_t i = 1; i < s->threads_high; ++i) {
    ThreadRecord& t = s->threads[i];
    const int32_t use = __atomic_load_n(&t.used, __ATOMIC_SEQ_CST);
    if (use == seam::kFree || t.kind == seam::kSpawnedChild) continue;
    if (use == seam::kLive && __atomic_load_n(&t.parked, __ATOMIC_SEQ_CST) == stop) continue;
    const int32_t tid = __atomic_load_n(&t.tid, __ATOMIC_SEQ_CST);
    if (use == seam::kLeaving && is_gone(t)) {
      int32_t leaving = seam::kLeaving;
      __atomic_compare_exchange_n(&t.used, &leaving, seam::kFree, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
      continue;
    }
    all = false;
    // A thread without a tid is still being created.
    if (use == seam::kLive && tid != 0) ask_to_stop(t);
  }
  // A thread created meanwhile may have a record that this loop had passed already.
  return all && made == __atomic_load_n(&s->threads_made, __ATOMIC_SEQ_CST);
}

bool threads_only_send(bool main_serves) {
  const auto* s = seam::state();
  const uint32_t stop = seam::control()->stop;
  const uint32_t made = __atomic_load_n(&s->threads_made, __ATOMIC_SEQ_CST);
  if (!main_serves && s->threads[0].sending == 0) return false;
  for (uint32_t i = 1; i < s->threads_high; ++i) {
    const ThreadRecord& t = s->threads[i];
    const int32_t use = __atomic_load_n(&t.used, __ATOMIC_SEQ_CST);
    if (use != seam::kLive || t.kind == seam::kSpawnedChild) continue;  // a leaving thread makes no calls
    if (t.sending == 0 && __atomic_load_n(&t.parked, __ATOMIC_SEQ_CST) != stop) return false;
  }
  return made == __atomic_load_n(&s->threads_made, __ATOMIC_SEQ_CST);
}

// One signal is enough: a thread that cannot take it in the LH parks when it leaves; in other cases the core
// asks for another signal.
void ask_to_stop(ThreadRecord& t) {
  const uint32_t stop = seam::control()->stop;
  if (__atomic_load_n(&t.asked, __ATOMIC_SEQ_CST) == stop) return;
  __atomic_store_n(&t.asked, stop, __ATOMIC_SEQ_CST);
  if (!queue_suspend_signal(t.tid)) t.asked = 0;  // the queue is full (RLIMIT_SIGPENDING)
}

bool forget_suspend_signals() {
  constexpr uint64_t kOnly = 1ull << (seam::kSuspendSignal - 1);
  const timespec now{};
  std::vector<siginfo_t> programs;
  for (;;) {
    siginfo_t info{};
    if (upper::raw(SYS_rt_sigtimedwait, reinterpret_cast<long>(&kOnly), reinterpret_cast<long>(&info),
                   reinterpret_cast<long>(&now), 8) <= 0)
      break;
    const bool ours = info.si_code == SI_QUEUE &&
                      reinterpret_cast<uint64_t>(info.si_value.sival_ptr) == seam::kSuspendMagic;
    if (!ours) programs.push_back(info);
  }
  for (siginfo_t& info : programs)
    syscall(SYS_rt_tgsigqueueinfo, getpid(), syscall(SYS_gettid), seam::kSuspendSignal, &info);
  return programs.empty();
}

void release_threads() {
  auto* page = seam::writable_control;
  __atomic_store_n(&page->released, page->stop, __ATOMIC_SEQ_CST);
  each_thread([&](ThreadRecord& t) {
    if (t.parked == page->stop) wake(t);
  });
}

Result<std::vector<SavedThread>> saved_threads() {
  give_back_signal_stacks();
  std::vector<SavedThread> all;
  process::AttributeValues mains;
  std::string refusal;
  const pid_t main = static_cast<pid_t>(syscall(SYS_gettid));
  each_thread([&](ThreadRecord& t) {
    if (!refusal.empty()) return;
    if (mains.empty()) {
      if (auto s = have_block(); !s) {
        refusal = s.error().message;
        return;
      }
      mains = process::thread_attributes();
    }
    Seen seen;
    run_on(t, [&] { seen = look(t, mains, main); });
    refusal = seen.refusal;
    all.push_back(std::move(seen.saved));
  });
  if (!refusal.empty()) return Error{refusal};
  return all;
}

uint64_t blocked_everywhere() {
  const auto mask_of = [](const ThreadRecord& t) {
    return reinterpret_cast<const ucontext_t*>(t.context)->uc_sigmask.__val[0];
  };
  const ThreadRecord& main = seam::state()->threads[0];
  uint64_t blocked = main.gone != 0 ? ~uint64_t{0} : mask_of(main);
  each_thread([&](const ThreadRecord& t) { blocked &= mask_of(t); });
  return blocked;
}

Status read_pending_signals(std::vector<SavedThread>& threads) {
  bool told = forget_suspend_signals();
  for (SavedThread& saved : threads) {
    ThreadRecord& t = seam::state()->threads[saved.record];
    if (pending_for_thread(t.tid) == 0) continue;
    run_on(t, [&] {
      if (!forget_suspend_signals()) told = false;
      const auto* context = reinterpret_cast<const ucontext_t*>(t.context);
      for (PendingSignal& p : pending_signals(context->uc_sigmask.__val[0]))
        if (!p.process) saved.pending.push_back(std::move(p));
    });
  }
  // The C library uses this signal too, and the thread that sent it waits for an answer.
  if (!told) return Error{"a thread is just changing the ids of the process (setuid and its kin); ask again"};
  return {};
}

Status try_threads(const std::vector<SavedThread>& threads) {
  if (threads.empty()) return {};
  const auto stacks = first_stacks(threads.size());
  if (!stacks) return stacks.error();
  std::vector<int32_t> tids(threads.size());
  gate = kShut;
  size_t made = 0;
  long result = 0;
  for (; made < threads.size(); ++made) {
    result = cropdl_clone_thread(kThread | CLONE_PARENT_SETTID, *stacks + (made + 1) * kFirstStack,
                                 &tids[made], end_thread, nullptr);
    if (upper::failed(result)) break;
  }
  __atomic_store_n(&gate, kEnd, __ATOMIC_SEQ_CST);
  syscall(SYS_futex, &gate, FUTEX_WAKE_PRIVATE, INT_MAX);
  for (size_t i = 0; i < made; ++i)  // once its tid is gone, a thread no longer uses its stack
    while (syscall(SYS_tgkill, getpid(), tids[i], 0) == 0) sched_yield();
  gate = kShut;
  munmap(reinterpret_cast<void*>(*stacks), threads.size() * kFirstStack);
  if (made < threads.size()) return cannot_make(made, threads.size(), result);
  return {};
}

Status make_threads(const std::vector<SavedThread>& threads, std::string* note) {
  auto* s = seam::state();
  if (threads.empty()) return {};
  if (auto ready = have_block(); !ready) return ready;
  const auto stacks = first_stacks(threads.size());
  if (!stacks) return stacks.error();
  gate = kShut;
  size_t lost = 0;
  std::string example;
  for (size_t i = 0; i < threads.size(); ++i) {
    const SavedThread& saved = threads[i];
    if (saved.record == 0 || saved.record >= seam::kMaxThreads ||
        s->threads[saved.record].used != seam::kLive)
      return Error{"the image's list of threads does not fit its records"};
    ThreadRecord& t = s->threads[saved.record];
    t.lower_fs = t.upper_fs = t.lower_sp = 0;
    t.lower_selector = t.upper_selector = 0;
    t.asked = 0;
    t.parked = 0;
    t.task = nullptr;
    t.cpu_before = saved.cpu;
    for (size_t w = 0; w < std::size(t.usage_before); ++w)
      t.usage_before[w] = w < saved.usage.size() ? saved.usage[w] : 0;
    const long made = cropdl_clone_thread(kThread | CLONE_PARENT_SETTID, *stacks + (i + 1) * kFirstStack,
                                          &t.tid, begin_thread, &t);
    if (upper::failed(made)) return cannot_make(i, threads.size(), made);
    Status queued;
    std::string differs;
    run_on(t, [&] {
      prctl(PR_SET_NAME, saved.name.c_str());
      differs = process::put_back_differing(saved.attributes);
      queued = queue_again(saved.pending);
    });
    if (!queued) return queued;
    if (!differs.empty() && ++lost == 1) example = name_of(t, saved.name) + ": " + differs;
  }
  if (lost != 0)
    *note = formatted("not put back of the program's threads, which have what the main thread has: {}{}",
                      example, lost > 1 ? formatted(", and likewise of {} more", lost - 1) : "");
  return {};
}

__attribute__((optimize("no-stack-protector"))) void register_rseq(const ThreadRecord* t) {
  if (t->rseq == 0) return;
  if (upper::raw(SYS_rseq, static_cast<long>(t->rseq), t->rseq_length, 0, t->rseq_signature) == 0) return;
  constexpr size_t kCpu = 4;  // offset of cpu_id in struct rseq (include/uapi/linux/rseq.h)
  *reinterpret_cast<volatile int32_t*>(t->rseq + kCpu) = -1;
}

void go_on_with_threads() {
  __atomic_store_n(&gate, kOpen, __ATOMIC_SEQ_CST);
  each_thread(wake);
}

void to_json(nlohmann::json& j, const SavedThread& t) {
  nlohmann::json pending = nlohmann::json::array();
  for (const PendingSignal& p : t.pending) pending.push_back(p.info);
  j = {{"record", t.record}, {"name", json_bytes(t.name)}, {"attributes", t.attributes},
       {"cpu", t.cpu},       {"usage", t.usage},           {"pending", pending}};
}

void from_json(const nlohmann::json& j, SavedThread& t) {
  t.record = integer_from_json<uint32_t>(j.at("record"));
  t.name = bytes_from_json(j.at("name"));
  j.at("attributes").get_to(t.attributes);
  t.cpu = integer_from_json<int64_t>(j.at("cpu"));
  j.at("usage").get_to(t.usage);
  for (const auto& info : j.at("pending")) t.pending.push_back({false, info.get<std::string>()});
}

}  // namespace cropdl::program_threads
