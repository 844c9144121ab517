// Output of the commands: lines for users, or with --json one object on standard output (docs/cli.md). An
// error is one line on standard error, or with --json an object with a member "error". Also checks of the
// files that commands write outside a store. Tools; one thread.
#pragma once

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
inline constexpr int kFailed = 1;  // the request failed, or a check found a fault
inline constexpr int kMisuse = 2;  // the command line is wrong; nothing was read

// Prints a line on standard output. Escapes control characters: texts in a store may be another user's.
void print(const std::string& line);
template <class... A>
requires(sizeof...(A) > 0) void print(fmt::format_string<A...> text, A&&... values) {
  print(formatted(text, std::forward<A>(values)...));
}

// Prints the object on its own line. Byte strings that are not UTF-8 must have passed json_bytes().
void print(const nlohmann::json& object);

// Prints the error and returns `status`.
int fail(bool json, const Error& error, int status = kFailed);

// Prints a command's result, the object if `json`, else the line. Returns kDone.
int answer(bool json, const nlohmann::json& object, const std::string& line);

// Returns "FILE and 2 more files". `paths` is not empty.
std::string named_files(const std::vector<std::string>& paths);

// Returns "under openmpi 4.1.4" or "without MPI".
std::string under_mpi(const restart::Manifest& manifest);

// Returns the array of what `as_json` makes of each element.
template <class List, class AsJson>
nlohmann::json json_list(const List& all, AsJson as_json) {
  nlohmann::json list = nlohmann::json::array();
  for (const auto& one : all) list.push_back(as_json(one));
  return list;
}

// Returns the text, or null if it is empty.
nlohmann::json text_or_null(const std::string& text);

// Returns for how many seconds the images were written: the stall without its other stages.
double writing_seconds(const restart::Manifest& manifest);

// Returns "A version" of docs/cli.md.
nlohmann::json version_json(const restart::Version& version);

// Refuses an output file inside the store, which foreign files make invalid. "-": standard output.
Status check_outside(const std::string& file, const std::string& store);

}  // namespace cropdl::cli
