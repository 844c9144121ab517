// What the commands print: lines for people, or with --json one object on standard output (docs/cli.md). A
// failure is one line on standard error, or with --json an object with a member "error". Tools; one thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/result.h"
#include "base/words.h"
#include "restart/manifest.h"
#include "restart/store.h"

namespace cropdl::cli {

// Exit statuses (docs/cli.md).
inline constexpr int kDone = 0;
inline constexpr int kFailed = 1;  // what was asked for could not be done, or is not as it should be
inline constexpr int kMisuse = 2;  // the command line is wrong; nothing was looked at

// A line on standard output. Names and texts in a store may be another user's: control characters are
// escaped.
void print(const std::string& line);

// The object on a line of its own. What is no UTF-8 must have gone through json_bytes().
void print(const nlohmann::json& object);

// Says why, and returns the exit status for it.
int fail(bool json, const Error& error, int status = kFailed);

// The program and its arguments, with blanks between them.
std::string command_line(const restart::Manifest& manifest);

// "FILE and 2 more files", of at least one.
std::string named_files(const std::vector<std::string>& paths);

// The text, or null if it is empty.
nlohmann::json text_or_null(const std::string& text);

// "A version" of docs/cli.md.
nlohmann::json version_json(const restart::Version& version);

}  // namespace cropdl::cli
