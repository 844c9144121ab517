// Signals of the program that wait to be unblocked: each with its siginfo, for the thread or for the process,
// in the order in which they were queued. LH; the main thread while the program is stopped with all signals
// blocked, or START.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "base/result.h"

namespace cropdl::program_threads {

struct PendingSignal {
  bool process = false;  // sent to the process (kill), not to the thread (tgkill, raise)
  std::string info;      // siginfo_t, in hexadecimal
};
void to_json(nlohmann::json& j, const PendingSignal& s);
void from_json(const nlohmann::json& j, PendingSignal& s);  // throws json::exception

// What is pending: all that the program blocks (`blocked`, as in rt_sigprocmask), and of the rest, which came
// while it was being stopped, what the kernel or the program itself has sent. What others sent then, such as
// a scheduler's SIGTERM, comes after the cut. They stay pending.
std::vector<PendingSignal> pending_signals(uint64_t blocked);

// The mask of signals that are pending for a thread of this process alone; 0: the calling one.
uint64_t pending_for_thread(int32_t tid = 0);

// Makes them pending again, in another process.
Status queue_again(const std::vector<PendingSignal>& signals);

}  // namespace cropdl::program_threads
