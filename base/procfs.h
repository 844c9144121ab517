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
std::string process_stat(const std::string& process, size_t n);  // field `n`, "" if there is none

std::vector<std::string> process_words(const std::string& process);  // of /proc/PID/cmdline

// From the text of a /proc status file: a field's value, without the blanks before it, "" if there is none;
// the same of hexadecimal digits, 0 if there is none; the seccomp mode and, since Linux 5.10, the number of
// filters.
std::string status_field(const std::string& status, const std::string& name);
uint64_t status_bits(const std::string& status, const std::string& name);
std::string seccomp_in(const std::string& status);

}  // namespace cropdl
