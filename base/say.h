// Lines for people. Lower half and tools; any thread.
#pragma once

#include <string>

namespace cropdl {

// From now on lines go to what is the standard error stream now, whatever the program makes of number 2
// later: to a copy of it, numbered from `first` on where the limit allows it. Before there is a program.
void keep_error_stream(int first);

// Where lines go: number 2 unless keep_error_stream() was called; -1: nowhere.
int error_stream();

// The text as a terminal may have it: what others chose (names, arguments, what a peer says) may hold
// commands to the terminal. Control characters and what is no UTF-8 are escaped (\n, \x1b), all else stays as
// it is.
std::string shown(const std::string& text);

// Whether lines are written as JSON (docs/cli.md). Until choose_log_format() is called the environment says
// it: CROPDL_LOG=json. `name`: "json", all else is text.
void choose_log_format(const std::string& name);
bool log_is_json();

// The object that a line is then. Who speaks, and of which rank, is what the line begins with.
std::string line_as_json(const std::string& line, const std::string& time);

// One line, in one write, as shown(). It begins with who speaks: "cropdl-run: ...", "cropdl: rank 3: ...".
void say(const std::string& line);

}  // namespace cropdl
