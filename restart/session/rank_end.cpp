// How a rank's process ends before its program does: by SIGTERM, or after a last version.
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "interpose/seam/state.h"
#include "interpose/upper/raw.h"
#include "restart/session/rank.h"
#include "restart/threads/program_threads.h"

namespace cropdl::session {
namespace {

constexpr std::chrono::seconds kLongestEnd{60};  // time limit for announce_end(), which may take 30 s

// Sets the kernel's disposition, whatever the core or the program has installed.
void set_default(int signal) {
  const seam::SignalAction standard{};
  upper::raw(SYS_rt_sigaction, signal, reinterpret_cast<long>(&standard), 0, 8);
}

}  // namespace

// A SIGTERM that came when no thread could take it is pending for the process. The reader of pending signals
// for an image (pending_signals) may hold it just now; the next call finds it.
bool Rank::take_sigterm() {
  constexpr uint64_t kOnly = 1ull << (SIGTERM - 1);
  {
    const std::lock_guard lock(mutex_);
    if (!serving_) return false;
  }
  const auto* state = seam::state();
  if (state->core.last_version == 0 || state->actions[SIGTERM].handler != 0) return false;
  if ((program_threads::blocked_everywhere() & kOnly) != 0) return false;
  siginfo_t info{};
  if (program_threads::take_signal(kOnly, &info) != SIGTERM) return false;
  const bool sent = info.si_code == SI_USER || info.si_code == SI_QUEUE;
  if (sent && info.si_pid != getpid()) return true;
  upper::raw(SYS_rt_sigqueueinfo, getpid(), SIGTERM, reinterpret_cast<long>(&info));
  return false;
}

void Rank::let_sigterm_kill() {
  if (seam::state()->actions[SIGTERM].handler == 0) set_default(SIGTERM);
}

// By system call only: the program's unwritten buffers are in the image, and a restart writes them.
void Rank::leave(int status) {
  // Block SIGTERM: it would change the exit status, and nothing can be lost any more.
  const uint64_t only = 1ull << (SIGTERM - 1);
  upper::raw(SYS_rt_sigprocmask, SIG_BLOCK, reinterpret_cast<long>(&only), 0, 8);
  {
    const std::lock_guard lock(mutex_);
    end_status_ = status;  // the main thread exits: it has the connection to the launcher
    wake_.notify_one();
  }
  std::this_thread::sleep_for(kLongestEnd);
  _exit(status);
}

// Dies by the signal's default action, whatever the core or the program has installed.
void Rank::die(int signal) {
  const uint64_t only = 1ull << (signal - 1);
  set_default(signal);
  upper::raw(SYS_rt_sigprocmask, SIG_UNBLOCK, reinterpret_cast<long>(&only), 0, 8);
  upper::raw(SYS_tgkill, getpid(), gettid(), signal);
  _exit(128 + signal);
}

}  // namespace cropdl::session
