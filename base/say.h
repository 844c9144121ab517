// Log lines for users. LH and tools; any thread.
#pragma once

#include <string>

namespace cropdl {

// Sends further lines to a copy of today's standard error, whatever the program does with descriptor 2. The
// copy's number is at least `first` where the limit allows it. Called before the program starts.
void keep_error_stream(int first);
int error_stream();  // the descriptor that lines go to: 2 unless keep_error_stream() was called; -1: none

// Returns the text made safe for a terminal: names, arguments and messages of peers may contain terminal
// commands. Escapes control characters and invalid UTF-8 (\n, \x1b); the rest is unchanged.
std::string shown(const std::string& text);
// The same with a backslash before each quotation mark and backslash: for JSON and Prometheus.
std::string escaped(const std::string& text);

// Whether lines are written as JSON (docs/cli.md). The default is from the environment: CROPDL_LOG=json.
// choose_log_format() overrides it: "json", or any other name for text.
void choose_log_format(const std::string& name);
bool log_is_json();
// The line as a JSON object, with the speaker and its rank from the line's prefix.
std::string line_as_json(const std::string& line, const std::string& time);

// Writes one line, as shown(), in one write. It begins with the speaker: "cropdl-run: ...".
void say(const std::string& line);

}  // namespace cropdl
