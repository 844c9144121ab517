// The process's interval timers (setitimer, alarm). LH; MAIN, stopped with all signals blocked, or START.
#pragma once

#include <sys/time.h>

#include <cstdint>
#include <vector>

#include "base/result.h"

namespace cropdl::process {

struct IntervalTimer {
  int which = 0;                   // ITIMER_REAL, ITIMER_VIRTUAL, ITIMER_PROF
  int64_t left = 0, interval = 0;  // us; interval 0: it expires once
  static constexpr const char* kMembers[] = {"which", "left", "interval"};  // base/json.h
};

// While it lives, the timers stand still: the time of a checkpoint, perhaps minutes, is not the program's,
// whose alarm may watch over its progress. A timer that has expired by then is not among them; its signal is
// pending. One at a time. Allocates nothing.
class StoppedTimers {
 public:
  StoppedTimers();
  ~StoppedTimers();
  StoppedTimers(const StoppedTimers&) = delete;
  StoppedTimers& operator=(const StoppedTimers&) = delete;
  static std::vector<IntervalTimer> list();  // those that ran before; empty while no object lives

 private:
  itimerval left_[3]{};  // by ITIMER_REAL, ITIMER_VIRTUAL, ITIMER_PROF
};

// Starts them again, with the time that was left. Last before the program runs.
Status start_interval_timers(const std::vector<IntervalTimer>& timers);

}  // namespace cropdl::process
