// The program's clocks across a restart: the image has their values, and the core
// (interpose/upper/clocks.cpp) adds offsets to this machine's. LH, main thread.
#pragma once

#include <cstdint>
#include <vector>

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

}  // namespace cropdl::process
