// Lines for people. Lower half and tools; any thread.
#pragma once

#include <string>

namespace cropdl {

// From now on lines go to what is the standard error stream now, whatever the program makes of number 2
// later: to a copy of it, numbered from `first` on where the limit allows it. Before there is a program.
void keep_error_stream(int first);

// One line, in one write; to number 2 unless keep_error_stream() was called.
void say(const std::string& line);

}  // namespace cropdl
