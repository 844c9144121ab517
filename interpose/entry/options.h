// What the command lines of cropdl-run and cropdl-restart have in common. Tools.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "interpose/launch/boot.h"

namespace cropdl::entry {

// Values that are checked before anything converts them, so that the line names what was given and never a
// type's limits.
CLI::Validator interval_value();      // "auto", "0", or seconds: from 1 ms to ten years
CLI::Validator percent_value();       // "0.5", "0.5%": from 0.001 to 100
CLI::Validator duration_value();      // "43200", "30m", "12h", "3d": 0, or from a second to a thousand years
CLI::Validator keep_value();          // "3", "3,24h,7d"
CLI::Validator version_value();       // a version's number
CLI::Validator device_count_value();  // of software devices; "true": a flag without a value

// --interval, --max-overhead, --mtbf, --time-limit, --at-sigterm and --keep: when versions are taken by
// themselves, and which stay.
struct ScheduleOptions {
  // As they were given, or ""; a time limit as the moment that came of it when it was read.
  std::string interval, max_overhead, mtbf, time_limit, at_sigterm, keep;

  void add_to(CLI::App& app, const char* interval_else, const char* keep_else);  // complete "default: "
  void tell(launching::Boot* boot) const;
  std::vector<std::string> words() const;  // to give them to another command line
};

// --metrics, --quiet and --log.
struct ReportOptions {
  std::string metrics;  // an absolute path, or ""
  std::string log;      // as it was given, or ""; this process's lines follow it from when it is read
  bool quiet = false;

  void add_to(CLI::App& app);
  void tell(launching::Boot* boot) const;
  std::vector<std::string> words() const;  // to give them to another command line
};

std::string absolute(const std::string& path);  // "" stays ""

// Options are ours until `--` or the first word that is none. `program` gets the words from there on; without
// it there must be none. False: the process ends with `*status` (help was shown, or one line by `name` says
// what is wrong).
bool parse_options(CLI::App& app, int argc, char** argv, std::vector<std::string>* program, int* status);

}  // namespace cropdl::entry
