// The program's clocks across a restart: the image has their values, and the core
// (interpose/upper/clocks.cpp) adds offsets to this machine's. The process's interval timers. LH, MAIN.
#pragma once

#include <sys/time.h>

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "interpose/seam/layout.h"

namespace cropdl::process {

struct Clocks {  // as the program reads them; ns
  int64_t monotonic = 0, raw = 0, boottime = 0, process_cpu = 0, thread_cpu = 0;
  std::vector<std::vector<int64_t>> usage;  // struct rusage of the process, its children, its main thread
  static constexpr const char* kMembers[] = {"monotonic",   "raw",        "boottime",
                                             "process_cpu", "thread_cpu", "usage"};
};

Clocks read_clocks();

// struct rusage of the calling thread (not the main one), plus `before`, its usage in earlier runs.
std::vector<int64_t> usage_of_thread(const int64_t* before);

// In a process that continues an image: sets the offsets before the filter is installed and the program runs.
void continue_clocks(const Clocks& saved);

// `here`: the kernel's clocks now. CPU time and usage continue from their saved values. Other clocks continue
// from theirs unless this machine's are ahead: no clock goes back.
seam::ClockOffsets clock_offsets(const Clocks& saved, const Clocks& here);

struct IntervalTimer {             // man 2 setitimer
  int which = 0;                   // ITIMER_REAL, ITIMER_VIRTUAL, ITIMER_PROF
  int64_t left = 0, interval = 0;  // us; interval 0: it expires once
  static constexpr const char* kMembers[] = {"which", "left", "interval"};  // base/json.h
};

// While it lives, the timers stand still: the time of a checkpoint, perhaps minutes, is not the program's,
// whose alarm may watch over its progress. A timer that has expired by then is not among them; its signal is
// pending. One at a time, with all signals blocked. Allocates nothing.
class StoppedTimers {
 public:
  StoppedTimers();
  ~StoppedTimers();
  StoppedTimers(const StoppedTimers&) = delete;
  StoppedTimers& operator=(const StoppedTimers&) = delete;
  static std::vector<IntervalTimer> list();  // those that ran before; empty while no object lives

 private:
  itimerval left_[3]{};  // by `which`
};

// Starts them again, with the time that was left. Last before the program runs.
Status start_interval_timers(const std::vector<IntervalTimer>& timers);

}  // namespace cropdl::process
