// See metrics.h.
#include "coord/metrics.h"

#include <sys/stat.h>

#include <string_view>
#include <type_traits>

#include "base/file.h"
#include "base/format.h"
#include "base/say.h"

namespace cropdl::coord {

double overhead(const Metrics& m) {
  return m.run_seconds > 0 ? (m.held_seconds + m.beside_seconds) / m.run_seconds : 0;
}

std::string metrics_text(const Metrics& m) {
  std::string text;
  const std::string labels = formatted("{{job=\"{}\",store=\"{}\"}}", escaped(m.job), escaped(m.store));
  const auto add = [&](std::string_view name, const char* help, auto value) {
    text += formatted("# HELP cropdl_{0} {1}\n# TYPE cropdl_{0} {2}\ncropdl_{0}{3} ", name, help,
                      name.ends_with("_total") ? "counter" : "gauge", labels);
    if constexpr (std::is_floating_point_v<decltype(value)>)
      text += formatted("{:.9g}\n", value);
    else
      text += formatted("{}\n", value);
  };
  add("up", "1 while the job runs, 0 when its program has ended.", m.up ? 1 : 0);
  add("ranks", "Ranks of the job.", m.ranks);
  add("ranks_joined", "Ranks that can be checkpointed.", m.joined);
  add("run_seconds", "Time since the start or restart.", m.run_seconds);
  add("versions_total", "Versions taken by this run.", m.versions);
  add("failures_total", "Requests for a version that this run refused or that failed.", m.failures);
  if (m.last_version != 0) {
    add("last_version", "Number of the last version.", m.last_version);
    add("last_version_timestamp_seconds", "When it was published, since 1970.", m.last_version_time);
    add("last_version_bytes", "Size of its images.", m.last_version_bytes);
    add("last_version_stall_seconds", "How long the program stood still for it.", m.last_version_stall);
  }
  add("held_seconds_total", "Time in which the program could not go on, for all versions and attempts.",
      m.held_seconds);
  add("beside_seconds_total",
      "Processor time of rank 0's agent while the program runs, and of work on the store.", m.beside_seconds);
  add("overhead_ratio", "Both as a fraction of the time since the start or restart.", overhead(m));
  if (m.next_version) add("next_version_seconds", "Time until the next version is due.", *m.next_version);
  if (m.iteration != 0) add("iteration", "Complete iterations of the program's main loop.", m.iteration);
  if (m.iteration_seconds > 0) add("iteration_seconds", "How long an iteration takes.", m.iteration_seconds);
  return text;
}

void MetricsFile::write(const Metrics& metrics) {
  constexpr unsigned kForAll = 0644;
  struct stat there {};
  // The rename would put a file in the place of a device: root's of /dev/null.
  const bool other = ::lstat(path_.c_str(), &there) == 0 && !S_ISREG(there.st_mode);
  const Status written = other ? Status(Error{path_ + ": is not a regular file"})
                               : replace_file(path_, metrics_text(metrics), kForAll);
  if (!written && !failed_) report_(formatted("--metrics {}; the program runs on", written.error().message));
  failed_ = !written;
}

}  // namespace cropdl::coord
