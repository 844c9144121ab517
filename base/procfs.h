// Files of /proc/PID. LH and tools; any thread. The core, without a C library, has code of its own for some.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace cropdl {

// Returns the fields of /proc/PID/stat, numbered as in man 5 proc: [3] is the state; [0] to [2], the number
// and the name, are empty. `process`: a number, or "self". Empty if there is no such process.
std::vector<std::string> process_stat(const std::string& process);

// Returns field `n`, "" if there is none.
std::string process_stat(const std::string& process, size_t n);

// Returns the words of /proc/PID/cmdline.
std::vector<std::string> process_words(const std::string& process);

// Returns the value of a field of a /proc status file, without the blanks before it; "" if there is none.
std::string status_field(const std::string& status, const std::string& name);

// Returns such a field that has hexadecimal digits; 0 if there is none.
uint64_t status_bits(const std::string& status, const std::string& name);

// Returns the seccomp mode and, since Linux 5.10, the number of filters from such a file.
std::string seccomp_in(const std::string& status);

}  // namespace cropdl
