// The process's interval timers (setitimer, alarm). LH; the main thread while the program is stopped with all
// signals blocked, or START.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"

namespace cropdl::process {

struct IntervalTimer {
  int which = 0;                   // ITIMER_REAL, ITIMER_VIRTUAL, ITIMER_PROF
  int64_t left = 0, interval = 0;  // us; interval 0: it expires once
};
template <class Visit>
void list_members(IntervalTimer& t, Visit&& member) {  // base/json.h
  member("which", t.which);
  member("left", t.left);
  member("interval", t.interval);
}

// Returns the running timers. Calls `read_pending`, which notes the process's pending signals, so that an
// expired timer is either pending or still running: also if one expires meanwhile.
std::vector<IntervalTimer> read_interval_timers(const std::function<void()>& read_pending);

// Starts them again, with the time that was left. Last before the program runs.
Status start_interval_timers(const std::vector<IntervalTimer>& timers);

}  // namespace cropdl::process
