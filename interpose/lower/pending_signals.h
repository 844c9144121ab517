// Signals of the program that wait to be unblocked: each with its siginfo, for the thread or for the process,
// in the order in which they were queued. LH; the main thread while the program is stopped with all signals
// blocked, or START.
#pragma once

#include <string>
#include <vector>

#include "restart/result.h"

namespace cropdl::lower {

struct PendingSignal {
  bool process = false;  // sent to the process (kill), not to the thread (tgkill, raise)
  std::string info;      // siginfo_t, in hexadecimal
};

// What is pending and in `blocked` (as in rt_sigprocmask). It stays pending.
std::vector<PendingSignal> pending_signals(uint64_t blocked);

// Makes them pending again, in another process.
Status queue_again(const std::vector<PendingSignal>& signals);

}  // namespace cropdl::lower
