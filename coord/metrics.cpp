// See metrics.h.
#include "coord/metrics.h"

#include "base/file.h"
#include "base/format.h"
#include "base/say.h"

namespace cropdl::coord {

namespace {

// Escapes backslash and quotation mark in a label's value. shown() has already replaced control characters,
// newlines included.
std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : shown(text)) {
    if (c == '\\' || c == '"') out += '\\';
    out += c;
  }
  return out;
}

class Text {
 public:
  explicit Text(const Metrics& m)
      : labels_(formatted("{{job=\"{}\",store=\"{}\"}}", escaped(m.job), escaped(m.store))) {}

  void gauge(const char* name, const char* help, const std::string& value) {
    add(name, "gauge", help, value);
  }
  void counter(const char* name, const char* help, const std::string& value) {
    add(name, "counter", help, value);
  }
  std::string take() { return std::move(text_); }

 private:
  void add(const char* name, const char* type, const char* help, const std::string& value) {
    text_ += formatted("# HELP cropdl_{0} {1}\n# TYPE cropdl_{0} {2}\ncropdl_{0}{3} {4}\n", name, help, type,
                       labels_, value);
  }

  std::string labels_, text_;
};

std::string number(double value) { return formatted("{:.9g}", value); }
std::string number(uint64_t value) { return std::to_string(value); }

}  // namespace

std::string metrics_text(const Metrics& m) {
  Text text(m);
  text.gauge("up", "1 while the job runs, 0 when its program has ended.", m.up ? "1" : "0");
  text.gauge("ranks", "Ranks of the job.", number(uint64_t{m.ranks}));
  text.gauge("ranks_joined", "Ranks that can be checkpointed.", number(uint64_t{m.joined}));
  text.gauge("run_seconds", "Time since the start or restart.", number(m.run_seconds));
  text.counter("versions_total", "Versions taken by this run.", number(m.versions));
  text.counter("failures_total", "Requests for a version that this run refused or that failed.",
               number(m.failures));
  if (m.last_version != 0) {
    text.gauge("last_version", "Number of the last version.", number(m.last_version));
    text.gauge("last_version_timestamp_seconds", "When it was published, since 1970.",
               std::to_string(m.last_version_time));
    text.gauge("last_version_bytes", "Size of its images.", number(m.last_version_bytes));
    text.gauge("last_version_stall_seconds", "How long the program stood still for it.",
               number(m.last_version_stall));
  }
  text.counter("held_seconds_total",
               "Time in which the program could not go on, for all versions and attempts.",
               number(m.held_seconds));
  text.gauge("overhead_ratio", "That time as a fraction of the time since the start or restart.",
             number(m.run_seconds > 0 ? m.held_seconds / m.run_seconds : 0));
  if (m.next_version)
    text.gauge("next_version_seconds", "Time until the next version is due.", number(*m.next_version));
  if (m.iteration != 0)
    text.gauge("iteration", "Complete iterations of the program's main loop.", number(m.iteration));
  if (m.iteration_seconds > 0)
    text.gauge("iteration_seconds", "How long an iteration takes.", number(m.iteration_seconds));
  return text.take();
}

void MetricsFile::write(const Metrics& metrics) {
  constexpr unsigned kForAll = 0644;
  const Status written = replace_file(path_, metrics_text(metrics), kForAll);
  if (!written && !failed_) report_(formatted("--metrics {}; the program runs on", written.error().message));
  failed_ = !written;
}

}  // namespace cropdl::coord
