// The program's clocks over a restart: what they were at is saved, and what this machine's lack is added by
// the core (interpose/upper/clocks.cpp). LH, main thread.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "interpose/seam/process.h"

namespace cropdl::process {

struct Clocks {  // as the program reads them; ns
  int64_t monotonic = 0, raw = 0, boottime = 0, process_cpu = 0, thread_cpu = 0;
  std::vector<std::vector<int64_t>> usage;  // struct rusage of the process, its children, its main thread
};
void to_json(nlohmann::json& j, const Clocks& clocks);
void from_json(const nlohmann::json& j, Clocks& clocks);

Clocks read_clocks();

// struct rusage of the calling thread, which is not the main one, with what it had before.
std::vector<int64_t> usage_of_thread(const int64_t* before);

// In a process that continues an image, before the filter is installed and the program runs.
void continue_clocks(const Clocks& saved);

// What is added: `here` is what the kernel's clocks say now. Work goes on from where it was; time that has
// passed on this machine counts, but no clock goes back.
seam::ClockOffsets clock_offsets(const Clocks& saved, const Clocks& here);

}  // namespace cropdl::process
