// Files of /proc/PID. The core reads some of them, too, with code of its own (interpose/upper): it has no C
// library. LH and tools; any thread.
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

// Returns the seccomp mode and the number of filters from the text of a /proc status file. Kernels before
// 5.10 do not report the number.
std::string seccomp_in(const std::string& status);

}  // namespace cropdl
