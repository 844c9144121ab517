#include "restart/session/restore_process.h"

#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>

#include "base/format.h"
#include "interpose/seam/layout.h"
#include "interpose/upper/raw.h"
#include "restart/process/process_ids.h"

namespace cropdl::session {
namespace {

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
