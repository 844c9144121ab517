// Texts for human readers. Pure; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace cropdl {

// "1.5 GB": decimal units, as for disks.
std::string amount(uint64_t bytes);

// "0.34 s", "25 s", "40 min", "3.5 h", "4 days".
std::string in_words(double seconds);

// "1 image", "2 images".
std::string counted(uint64_t count, const char* what);

// Returns the program and its arguments, separated by blanks.
std::string command_line(const std::string& program, const std::vector<std::string>& arguments);

}  // namespace cropdl
