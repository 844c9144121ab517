#include "restart/session/process_state.h"

#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>

#include "base/file.h"
#include "base/format.h"
#include "base/procfs.h"
#include "interpose/seam/state.h"
#include "interpose/upper/raw.h"
#include "restart/files/open_files.h"
#include "restart/process/attributes.h"
#include "restart/process/process_ids.h"

namespace cropdl::session {
namespace {

std::string filters_at_start;  // for the process's life: each checkpoint compares with it

// The main thread's filters; "": it has ended.
std::string filters() {
  const std::string status = kernel_text(formatted("/proc/self/task/{}/status", getpid()));
  return status_field(status, "State").starts_with('Z') ? "" : seccomp_in(status);
}

std::string filters_refusal() {
  const std::string now = filters_at_start.empty() ? "" : filters();
  if (now.empty() || now == filters_at_start) return "";
  return formatted("the program has changed its {} (from {} to {}), which cannot be saved yet",
                   "set of seccomp filters", filters_at_start, now);
}

std::string futexes() {
  if (seam::state()->requeue_waits == 0) return "";
  return "a thread waits by FUTEX_WAIT_REQUEUE_PI, which cannot be saved yet";
}

// " (pid PID, NAME)", or "" where the kernel does not tell (CONFIG_PROC_CHILDREN).
std::string name_of_a_child() {
  for (const int tid : numbers_in("/proc/self/task")) {
    const std::string listed = kernel_text(formatted("/proc/self/task/{}/children", tid));
    const std::string pid = listed.substr(0, listed.find(' '));
    if (pid.empty()) continue;
    std::string name = kernel_text("/proc/" + pid + "/comm");
    name.resize(std::min(name.find('\n'), name.size()));
    std::replace_if(
        name.begin(), name.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
    return formatted(" (pid {}, {})", pid, name.empty() ? "?" : name);
  }
  return "";
}

std::string children() {
  siginfo_t info{};
  // __WALL: include children created without SIGCHLD (man 2 wait).
  if (waitid(P_ALL, 0, &info, WEXITED | WSTOPPED | WNOHANG | WNOWAIT | __WALL) != 0 && errno == ECHILD)
    return "";
  return "the program has a child process that it has not waited for" + name_of_a_child() +
         "; end it and wait for it (PyTorch: num_workers=0)";
}

std::string contexts_and_timers() {
  if (seam::state()->io_contexts != 0)
    return "a context of asynchronous input and output (io_setup) cannot be saved yet; io_destroy it";
  if (seam::state()->posix_timers != 0)
    return "a POSIX timer (timer_create) cannot be saved yet; timer_delete it, or use setitimer";
  return "";
}

std::string system_v() {
  const auto& known = seam::state()->system_v;
  const std::string cannot = " is the machine's and cannot be saved yet; remove it (ipcrm, ";
  for (uint32_t i = 0; i < std::min(known.semaphores, known.kMax); ++i) {
    semid_ds status{};
    if (semctl(known.semaphore[i], 0, IPC_STAT, &status) == 0 || errno == EACCES)
      return formatted("the System V semaphore set {} (semget){}IPC_RMID)", known.semaphore[i], cannot);
  }
  for (uint32_t i = 0; i < std::min(known.queues, known.kMax); ++i) {
    msqid_ds status{};
    if (msgctl(known.queue[i], IPC_STAT, &status) == 0 || errno == EACCES)
      return formatted("the System V message queue {} (msgget){}IPC_RMID)", known.queue[i], cannot);
  }
  if (std::max(known.semaphores, known.queues) > known.kMax)
    return formatted(
        "more than {} System V semaphore sets or message queues were there at once, and not all are known; "
        "no checkpoint of this process is possible any more",
        known.kMax);
  return "";
}

// Code whose system calls the core does not see.
std::string code() {
  const auto* state = seam::state();
  if (state->uses_raw_syscalls_low != 0)
    return "the program is not position-independent and makes raw system calls of its own; build it with "
           "-fPIE -pie";
  if (state->foreign_calls != 0)
    return "the program makes 32-bit system calls (int 0x80), which cannot be followed";
  if (state->foreign_code != 0)
    return "the program has made code of its own executable below 4 GiB or at an address of its choice, "
           "where its system calls are not seen; let the kernel choose the address (no MAP_FIXED, no "
           "MAP_32BIT)";
  return "";
}

std::string processor() {
  const uint32_t unseen = seam::state()->unseen;
  if ((unseen & seam::kUnseenPorts) != 0)
    return "the program has opened input and output ports (iopl, ioperm), which cannot be saved yet";
  if ((unseen & seam::kUnseenTimeStamps) != 0)
    return "the program has forbidden a thread the time stamp counter (PR_SET_TSC), which cannot be saved "
           "yet";
  return "";
}

std::string memory() {
  const auto* state = seam::state();
  if (state->uses_sysv_shm != 0)
    return "System V shared memory (shmat) cannot be saved yet, nor once it is detached; use other memory";
  const auto& segments = state->segments;  // other processes may write to them at any time
  for (uint32_t i = 0; i < std::min(segments.entries, segments.kMax); ++i) {
    shmid_ds status{};
    if (shmctl(segments.segment[i], IPC_STAT, &status) == 0 || errno == EACCES)
      return formatted(
          "the System V shared memory {} (shmget) is the machine's and cannot be saved yet; "
          "remove it (ipcrm, IPC_RMID)",
          segments.segment[i]);
  }
  if (segments.entries > segments.kMax)
    return formatted(
        "more than {} System V shared memory segments were there at once, and not all are known; "
        "no checkpoint of this process is possible any more",
        segments.kMax);
  if (state->grows_outside != 0)
    return "memory that grows by itself (MAP_GROWSDOWN) at an address of the program's choice cannot be "
           "saved yet";
  if (state->extents > seam::kMaxExtents)
    return formatted(
        "the program has placed more than {} mappings at addresses of its choice (MAP_FIXED); let the kernel "
        "choose them",
        seam::kMaxExtents);
  return "";
}

// The registrations of man 2 membarrier, which the program counts on.
Status register_for_membarriers(uint32_t commands) {
  for (uint32_t command = 1; command != 0; command <<= 1)
    if ((commands & command) != 0 && syscall(SYS_membarrier, command, 0, 0) != 0)
      return Error{
          "the program had registered for barriers (membarrier, command {}), which this kernel does not do: "
          "{}",
          command, errno_text(errno)};
  return {};
}

}  // namespace

void remember_filters() { filters_at_start = filters(); }

std::string process_refusal() {
  for (auto check : {process::root_refusal, filters_refusal, futexes, children, contexts_and_timers, system_v,
                     memory, code, processor, files::interrupted_by_a_stop})
    if (std::string line = check(); !line.empty()) return line;
  return "";
}

std::string raise_stack_limit(const Metadata& m) {
  rlimit limit{};
  if (getrlimit(RLIMIT_STACK, &limit) != 0 || limit.rlim_cur >= m.stack_limit) return "";
  const rlimit as_before = {m.stack_limit, std::max<rlim_t>(limit.rlim_max, m.stack_limit)};
  if (setrlimit(RLIMIT_STACK, &as_before) == 0) return "";
  return formatted("the program's stack may not grow here as far as before; raise the limit (ulimit -Hs {})",
                   m.stack_limit == RLIM_INFINITY ? "unlimited" : std::to_string(m.stack_limit / 1024));
}

Status restore_process(const Metadata& m) {
  umask(m.umask);
  prctl(PR_SET_NAME, m.name.c_str());
  auto* state = seam::state();
  process::take_place_of_ids();
  process::continue_clocks(m.clocks);
  // None was there at the cut; on this machine, or boot, their numbers are other people's.
  state->segments.entries = state->system_v.semaphores = state->system_v.queues = 0;
  state->fuse_locks.entries = 0;
  if (auto s = register_for_membarriers(state->membarriers); !s) return s;
  auto& main = state->threads[0];
  main.tid = static_cast<int32_t>(syscall(SYS_gettid));
  if (main.clear_tid != 0) syscall(SYS_set_tid_address, main.clear_tid);
  if (main.robust_list != 0) syscall(SYS_set_robust_list, main.robust_list, main.robust_size);
  for (auto& record : state->threads) {
    record.asked = 0;
    record.parked = 0;
    record.task = nullptr;
    if (&record != &main) record.lower_fs = record.lower_sp = 0;
  }
  // Signals that were pending, blocked by the program. All are blocked here, and in new threads, until a
  // frame's mask: not by sigfillset(), which omits 32 (with it the C library cancels threads) and 33.
  const uint64_t all = ~0ull;
  upper::raw(SYS_rt_sigprocmask, SIG_SETMASK, reinterpret_cast<long>(&all), 0, 8);
  if (Status queued = program_threads::queue_again(m.pending_signals); !queued) return queued;
  return program_threads::try_threads(m.threads);
}

}  // namespace cropdl::session
