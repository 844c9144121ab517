// `cropdl status`: shows whether the job runs and which versions are stored; --watch: again while it runs.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <optional>

#include "base/say.h"
#include "base/time.h"
#include "coord/client.h"
#include "restart/cli/commands.h"

namespace cropdl::cli {
namespace {

using coord::JobStatus;
using nlohmann::json;
using restart::StoreReader;
using restart::Version;

constexpr double kAnswerSeconds = 4;  // of a job that is stopped

struct StoreState {
  StoreReader::LiveJob job;                 // pid 0: no job runs
  std::optional<Result<JobStatus>> answer;  // answer of the running job
  size_t complete = 0, damaged = 0;
  std::optional<Version> newest;  // the newest complete one
};

Result<StoreState> look(const std::string& directory) {
  Result<StoreReader> store = StoreReader::open(directory);
  if (!store) return store.error();
  StoreState seen;
  if (const Status found = store->live_job().move_to(seen.job); !found) return found.error();
  const auto waiting = [](const std::string& line) { say("cropdl: " + line); };
  if (seen.job.pid != 0) seen.answer = coord::job_status(directory, kAnswerSeconds, waiting);
  Result<std::vector<Version>> versions = store->all_versions();
  if (!versions) return versions.error();
  for (Version& version : *versions) {
    if (!version.damage.empty())
      ++seen.damaged;
    else if (++seen.complete == 1)
      seen.newest = std::move(version);
  }
  return seen;
}

json job_json(const StoreState& seen) {
  if (seen.job.pid == 0) return {};
  json object{{"pid", seen.job.pid}, {"host", text_or_null(seen.job.host)}};
  const Result<JobStatus>& live = *seen.answer;
  object["problem"] = live ? json() : json(live.error().message);
  object["started"] = live ? json_bytes(live->started) : json();
  object["phase"] = live ? json_bytes(live->phase) : json();
  object["ranks"] = live ? json(live->ranks) : json();
  object["ready"] = live ? json(live->joined) : json();
  object["last_version"] = live && live->last_version != 0 ? json(live->last_version) : json();
  object["iteration"] = live && live->iteration != 0 ? json(live->iteration) : json();
  object["iteration_seconds"] =
      live && live->iteration_us != 0 ? json(in_seconds(live->iteration_us)) : json();
  object["last_failure"] = live ? text_or_null(live->last_line) : json();
  return object;
}

json status_json(const StoreState& seen) {
  return {{"job", job_json(seen)},
          {"complete", seen.complete},
          {"damaged", seen.damaged},
          {"newest", seen.newest ? version_json(*seen.newest) : json()}};
}

std::vector<std::string> job_lines(const StoreState& seen) {
  if (seen.job.pid == 0) return {"job:     not running"};
  std::vector<std::string> lines{formatted("job:     running (pid {} on {})", seen.job.pid, seen.job.host)};
  const Result<JobStatus>& live = *seen.answer;
  if (!live) {
    lines.push_back(formatted("         does not answer: {}", live.error().message));
    return lines;
  }
  lines.push_back(formatted("         since {}, {}, {} of {} ranks can be checkpointed", live->started,
                            live->phase, live->joined, live->ranks));
  if (live->iteration != 0)
    lines.push_back(live->iteration_us == 0 ? formatted("         iteration {}", live->iteration)
                                            : formatted("         iteration {}, {:.3g} s each",
                                                        live->iteration, in_seconds(live->iteration_us)));
  if (!live->last_line.empty()) lines.push_back(formatted("         last attempt: {}", live->last_line));
  return lines;
}

std::vector<std::string> status_lines(const StoreState& seen) {
  std::vector<std::string> lines = job_lines(seen);
  lines.push_back(formatted("stored:  {} complete, {} damaged", seen.complete, seen.damaged));
  if (!seen.newest) return lines;
  const restart::Manifest& m = seen.newest->manifest;
  lines.push_back(formatted("newest:  version {} of {}, {}, stall {:.3f} s", seen.newest->number, m.created,
                            amount(m.bytes()), m.stall_seconds));
  if (m.iteration() != 0) lines.push_back(formatted("         at iteration {}", m.iteration()));
  if (m.parent != 0) lines.push_back(formatted("         continues version {}", m.parent));
  lines.push_back(formatted("program: {}", command_line(m.program, m.args)));
  lines.push_back(formatted("ranks:   {} {}", m.ranks, under_mpi(m)));
  if (!m.devices().empty())
    lines.push_back(formatted("devices: {}, {} of memory on them", m.devices(), amount(m.device_memory())));
  return lines;
}

void show(const Common& common, const StoreState& seen) {
  if (common.json)
    print(status_json(seen));
  else
    for (const std::string& line : status_lines(seen)) print(line);
}

// On a terminal each block replaces the previous one (ECMA-48: cursor to the top, erase to the line's end,
// erase below); elsewhere an empty line separates two blocks.
void show_again(const Common& common, const StoreState& seen, bool first) {
  if (common.json || ::isatty(STDOUT_FILENO) == 0) {
    if (!first && !common.json) print(std::string());
    show(common, seen);
  } else {
    std::string block = first ? "\x1b[2J\x1b[H" : "\x1b[H";
    for (const std::string& line : status_lines(seen)) block += shown(line) + "\x1b[K\n";
    std::printf("%s\x1b[J", block.c_str());
  }
  std::fflush(stdout);
}

// Waits for `seconds`, or until the job ends, so that the final state is shown promptly.
void wait_while_it_runs(const std::string& directory, double seconds) {
  constexpr int64_t kLookForEnd = 250'000;  // us
  const int64_t until = monotonic_us() + static_cast<int64_t>(seconds * 1e6);
  for (int64_t left = until - monotonic_us(); left > 0; left = until - monotonic_us()) {
    ::usleep(static_cast<useconds_t>(std::min(left, kLookForEnd)));
    const Result<StoreReader> store = StoreReader::open(directory);
    if (!store) return;
    const Result<StoreReader::LiveJob> job = store->live_job();
    if (!job || job->pid == 0) return;
  }
}

}  // namespace

Result<int> status(const Common& common, double watch_seconds) {
  for (bool first = true;; first = false) {
    const Result<StoreState> seen = look(common.directory);
    if (!seen) return seen.error();
    if (watch_seconds > 0)
      show_again(common, *seen, first);
    else
      show(common, *seen);
    if (watch_seconds <= 0 || seen->job.pid == 0) return kDone;
    if (std::ferror(stdout) != 0) return kDone;  // main() reports it
    wait_while_it_runs(common.directory, watch_seconds);
  }
}

}  // namespace cropdl::cli
