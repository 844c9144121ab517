// /proc/PID/stat and status. LH and tools; any thread.
#pragma once

#include <string>
#include <vector>

namespace cropdl {

// Its fields, numbered as in man 5 proc: [3] is the state; [0] to [2], the number and the name, are empty.
// `process`: a number, or "self". Empty if there is no such process.
std::vector<std::string> process_stat(const std::string& process);

// Field `n` of it, "" if there is none.
std::string process_stat(const std::string& process, size_t n);

// From a thread's /proc status: the mode, and the number of filters (before 5.10 the kernel does not count
// them).
std::string seccomp_in(const std::string& status);

}  // namespace cropdl
