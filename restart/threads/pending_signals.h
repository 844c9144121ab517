// The program's pending signals: each with its siginfo, for a thread or for the process, in queue order. LH;
// the main thread while the program is stopped with all signals blocked, or START.
#pragma once

#include <signal.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace cropdl::program_threads {

struct PendingSignal {
  bool process = false;  // sent to the process (kill), not to the thread (tgkill, raise)
  std::string info;      // siginfo_t, in hexadecimal
  static constexpr const char* kMembers[] = {"process", "info"};  // base/json.h
};

// Returns the pending signals to save: all that the program blocks (`blocked`, as in rt_sigprocmask), and of
// the others, which came during the stop, those of the kernel, the program itself or another rank. Other
// senders' (a scheduler's SIGTERM) count as after the cut. All stay pending.
std::vector<PendingSignal> pending_signals(uint64_t blocked);

// Queues the signals again, in the new process. When an action is set that ignores a signal, the kernel
// discards what is pending of it, though blocked (kernel/signal.c, do_sigaction): call this once more when
// the program's actions are set, for those that they ignore.
Status queue_again(const std::vector<PendingSignal>& signals, bool only_ignored = false);

// Takes a pending signal of `set`, the thread's before the process's; 0 or less: none. Allocates nothing.
long take_signal(uint64_t set, siginfo_t* info) noexcept;

}  // namespace cropdl::program_threads
