// Command lines of cropdl-run and cropdl-restart. Tools. Without CLI11, which takes eight seconds to compile.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "interpose/launch/boot.h"

namespace CLI {
class App;
}

namespace cropdl::entry {

// --interval, --max-overhead, --mtbf, --time-limit, --at-sigterm, --keep: automatic versions, and which stay.
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

// --software-gpu and --software-nccl.
struct DeviceOptions {
  std::string software_gpus;  // number of devices; "true": the option without a number; "": no such option
  bool software_nccl = false;

  // `…_text`: the help texts.
  void add_to(CLI::App& app, const char* gpu_text, const char* nccl_text);
  void tell(launching::Boot* boot) const;
  std::vector<std::string> words() const;  // the same options as words of another command line
};

std::string absolute(const std::string& path);  // "" stays ""

struct RunOptions {
  std::string directory = "cropdl.ckpt";
  ScheduleOptions schedule;
  ReportOptions reports;
  uint64_t save_files = 0;  // bytes; 0: not given
  bool by_reference = false;
  std::string argv0;  // the program's own, if PROGRAM is only its file; "": PROGRAM
  DeviceOptions devices;
  std::vector<std::string> words;  // PROGRAM ARGS...

  // Returns false if the process must exit with `*status`: help was shown, or one line has named the error.
  bool parse(int argc, char** argv, int* status);
  std::vector<std::string> option_words() const;  // the options as given, without --dir and --argv0
};

struct RestartOptions {
  std::string directory;
  uint64_t version = 0;  // 0: the newest whole one
  ScheduleOptions schedule;
  ReportOptions reports;
  DeviceOptions devices;
  std::string moved_variables, files;  // as given, or ""

  bool parse(int argc, char** argv, int* status);  // as above
  std::vector<std::string> words() const;  // the same options, without DIR, as words of another command line
};

}  // namespace cropdl::entry
