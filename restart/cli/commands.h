// The commands of `cropdl`, one file each, and their output: lines for users, or with --json one object on
// standard output (docs/cli.md). A command returns an exit status, or an error, which the command line prints
// (status kFailed): one line on standard error, or with --json an object with a member "error". Tools; one
// thread.
#pragma once

#include <string>
#include <vector>

#include "base/format.h"
#include "base/json.h"
#include "base/result.h"
#include "base/words.h"
#include "restart/store.h"

namespace cropdl::cli {

struct Common {
  std::string directory;
  bool json = false;
};

Result<int> list(const Common& common);

// watch_seconds > 0: repeats at this interval until the job ends; if no job runs, prints once.
Result<int> status(const Common& common, double watch_seconds);

// number 0: all versions.
Result<int> verify(const Common& common, uint64_t number);

// number 0: the newest complete version; rank -1: all ranks.
Result<int> inspect(const Common& common, uint64_t number, int64_t rank);

Result<int> prune(const Common& common, const restart::Retention& retention, bool dry_run);

// last: the job ends after the checkpoint.
Result<int> checkpoint(const Common& common, bool last);

// number 0: the newest complete version. `output`: a file that does not exist yet; "-": standard output.
Result<int> export_version(const Common& common, uint64_t number, const std::string& output);
// Creates a version from an export; "-": from standard input.
Result<int> import_version(const Common& common, const std::string& file);

// Writes an HTML page to `output`; "-": to standard output.
Result<int> report(const Common& common, const std::string& output);

// Examines a program that would use the store `directory`.
int doctor(const std::vector<std::string>& command, const std::string& directory, bool json);

// --- Output (output.cpp).

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
