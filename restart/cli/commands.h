// The commands of `cropdl`, one file each. Each returns an exit status (output.h), or an error, which the
// command line prints (status kFailed). Tools; one thread.
#pragma once

#include "restart/cli/output.h"

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

}  // namespace cropdl::cli
