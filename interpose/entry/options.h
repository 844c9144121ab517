// Options that the command lines of cropdl-run and cropdl-restart share. Tools.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "interpose/launch/boot.h"

namespace cropdl::entry {

// Validators check the text before CLI11 converts it, so that the message names the given text and not a
// type's limits.
CLI::Validator interval_value();      // "auto", "0", or seconds: from 1 ms to ten years
CLI::Validator percent_value();       // "0.5", "0.5%": from 0.001 to 100
CLI::Validator duration_value();      // "43200", "30m", "12h", "3d": 0, or from a second to a thousand years
CLI::Validator keep_value();          // "3", "3,24h,7d"
CLI::Validator version_value();       // a version's number
CLI::Validator device_count_value();  // number of software devices; "true": a flag without a value

// --interval, --max-overhead, --mtbf, --time-limit, --at-sigterm and --keep: when versions are taken
// automatically, and which are kept.
struct ScheduleOptions {
  // As given, or "". A time limit is converted to a point in time when it is read.
  std::string interval, max_overhead, mtbf, time_limit, at_sigterm, keep;

  // `interval_else`, `keep_else`: the defaults that the help texts name.
  void add_to(CLI::App& app, const char* interval_else, const char* keep_else);
  void tell(launching::Boot* boot) const;
  std::vector<std::string> words() const;  // the same options as words of another command line
};

// --metrics, --quiet and --log.
struct ReportOptions {
  std::string metrics;  // an absolute path, or ""
  std::string log;      // as given, or ""; parsing it also switches this process's own lines
  bool quiet = false;

  void add_to(CLI::App& app);
  void tell(launching::Boot* boot) const;
  std::vector<std::string> words() const;  // the same options as words of another command line
};

std::string absolute(const std::string& path);  // "" stays ""

// Parses options up to `--` or the first word that is not an option. `program` gets the remaining words;
// if `program` is null, remaining words are an error. Returns false if the process must exit with `*status`:
// help was shown, or one line has named the error.
bool parse_options(CLI::App& app, int argc, char** argv, std::vector<std::string>* program, int* status);

}  // namespace cropdl::entry
