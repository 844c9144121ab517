#include "interpose/entry/options.h"

#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <optional>

#include "base/format.h"
#include "base/say.h"
#include "base/time.h"
#include "restart/retention.h"

namespace cropdl::entry {
namespace {

constexpr double kDay = 86400, kYear = 365.25 * kDay;          // seconds
constexpr double kShortest = 0.001, kLongest = 10 * kYear;     // between versions
constexpr double kLeastOverhead = 0.001, kMostOverhead = 100;  // percent
constexpr double kShortestMtbf = 1, kLongestMtbf = 1000 * kYear;

std::string in_quotes(const std::string& text) {
  return formatted("`{}{}`", text.substr(0, 40), text.size() > 40 ? "..." : "");
}

// Converts the whole text, with or without the unit. A value that underflows a double is not taken as zero.
std::optional<double> number(std::string text, const std::string& unit) {
  if (!unit.empty() && text.ends_with(unit)) text.resize(text.size() - unit.size());
  char* end = nullptr;
  errno = 0;
  double value = strtod(text.c_str(), &end);
  if (end == text.c_str() || *end != 0 || !std::isfinite(value)) return std::nullopt;
  if (value == 0 && errno == ERANGE) value = std::nextafter(0, 1);
  return value;
}

std::optional<double> duration(const std::string& text) {
  constexpr struct {
    const char* unit;
    double seconds;
  } kUnits[] = {{"s", 1}, {"m", 60}, {"h", 3600}, {"d", kDay}};
  for (const auto& [unit, seconds] : kUnits)
    if (text.ends_with(unit)) {
      const auto value = number(text, unit);
      return value ? std::optional(*value * seconds) : std::nullopt;
    }
  return number(text, "");
}

// Parses a time limit that another command of this job has already converted: "@" and seconds since 1970.
std::optional<double> moment(const std::string& text) {
  return text.starts_with("@") ? number(text.substr(1), "") : std::nullopt;
}

}  // namespace

CLI::Validator interval_value() {
  return CLI::Validator(
      [](std::string& text) -> std::string {
        if (text == "auto") return "";
        const auto value = number(text, "");
        if (!value) return in_quotes(text) + " is not a number of seconds";
        if (*value != 0 && (*value < kShortest || *value > kLongest))
          return in_quotes(text) + " is not between 0.001 seconds and ten years";
        return "";
      },
      "");
}

CLI::Validator percent_value() {
  return CLI::Validator(
      [](std::string& text) -> std::string {
        const auto value = number(text, "%");
        if (!value) return in_quotes(text) + " is not a number of percent";
        if (*value < kLeastOverhead || *value > kMostOverhead)
          return in_quotes(text) + " is not between 0.001 and 100 percent";
        return "";
      },
      "");
}

CLI::Validator duration_value() {
  return CLI::Validator(
      [](std::string& text) -> std::string {
        const auto value = duration(text);
        if (!value) return in_quotes(text) + " is not a duration, such as 43200 (seconds), 30m, 12h or 3d";
        if (*value != 0 && (*value < kShortestMtbf || *value > kLongestMtbf))
          return in_quotes(text) + " is not between a second and a thousand years";
        return "";
      },
      "");
}

CLI::Validator version_value() {
  return CLI::Validator(
      [](std::string& text) -> std::string {
        const bool digits =
            !text.empty() && text.size() < 19 && text.find_first_not_of("0123456789") == std::string::npos;
        if (!digits || text.find_first_not_of('0') == std::string::npos)
          return in_quotes(text) + " is not a version's number";
        return "";
      },
      "");
}

CLI::Validator device_count_value() {
  return CLI::Validator(
      [](std::string& text) -> std::string {
        constexpr int kMost = 16;  // gpu_state/software/settings
        const bool digits =
            !text.empty() && text.size() < 3 && text.find_first_not_of("0123456789") == std::string::npos;
        if (text != "true" && (!digits || atoi(text.c_str()) < 1 || atoi(text.c_str()) > kMost))
          return in_quotes(text) + " is not a number of devices from 1 to 16";
        return "";
      },
      "");
}

CLI::Validator keep_value() {
  return CLI::Validator(
      [](std::string& text) -> std::string {
        if (restart::parse_retention(text)) return "";
        return in_quotes(text) + " says no number of versions, such as 3 or 3,24h,7d";
      },
      "");
}

void ScheduleOptions::add_to(CLI::App& app, const char* interval_else, const char* keep_else) {
  app.add_option("--interval", interval,
                 formatted("when to take checkpoints: at intervals that cost little (auto), every so many "
                           "seconds, or only when asked (0) (default: {})",
                           interval_else))
      ->option_text("auto|SECONDS|0")
      ->check(interval_value());
  app.add_option("--max-overhead", max_overhead,
                 "of auto: how much of the job's time checkpoints may cost, in percent (default: 1)")
      ->option_text("PERCENT")
      ->check(percent_value());
  app.add_option("--mtbf", mtbf,
                 "of auto: the mean time between failures of the job's machines, in seconds or as 30m, 12h, "
                 "3d; 0: unknown (the default)")
      ->option_text("DURATION")
      ->check(duration_value());
  app.add_option("--time-limit", time_limit,
                 "others end the job so long from now: before that, it takes a last version and ends with "
                 "status 75; 0: never (default: what Slurm says)")
      ->option_text("DURATION")
      ->check(
          CLI::Validator([](std::string& text) { return moment(text) ? "" : duration_value()(text); }, ""));
  app.add_option("--at-sigterm", at_sigterm,
                 "where the program leaves SIGTERM at its default: take a last version and end with status "
                 "75 (version, the default unless --interval 0), or die as without CropDL (die)")
      ->option_text("version|die")
      ->check(CLI::IsMember({"version", "die"}));
  app.add_option("--keep", keep,
                 formatted("the job's versions that stay: the newest N, and the newest of each of the last H "
                           "hours and D days (default: {})",
                           keep_else))
      ->option_text("N[,Hh][,Dd]")
      ->check(keep_value());
  app.callback([this] {
    if (const double limit = duration(time_limit).value_or(0); limit > 0)
      time_limit = formatted("@{:.3f}", unix_time() + limit);
    if (interval.empty() || interval == "auto" || (max_overhead.empty() && mtbf.empty())) return;
    throw CLI::ValidationError(max_overhead.empty() ? "--mtbf" : "--max-overhead",
                               "goes with --interval auto, not with --interval " + interval);
  });
}

void ScheduleOptions::tell(launching::Boot* boot) const {
  boot->interval = interval;
  if (!max_overhead.empty()) boot->max_overhead = number(max_overhead, "%").value_or(0) / 100;
  if (!mtbf.empty()) boot->mtbf = duration(mtbf).value_or(0);
  boot->at_sigterm = at_sigterm;
  boot->keep = keep;
  if (!time_limit.empty()) boot->ends_at = moment(time_limit).value_or(0);
}

std::vector<std::string> ScheduleOptions::words() const {
  std::vector<std::string> words;
  if (!interval.empty()) words.insert(words.end(), {"--interval", interval});
  if (!max_overhead.empty()) words.insert(words.end(), {"--max-overhead", max_overhead});
  if (!mtbf.empty()) words.insert(words.end(), {"--mtbf", mtbf});
  if (!time_limit.empty()) words.insert(words.end(), {"--time-limit", time_limit});
  if (!at_sigterm.empty()) words.insert(words.end(), {"--at-sigterm", at_sigterm});
  if (!keep.empty()) words.insert(words.end(), {"--keep", keep});
  return words;
}

void ReportOptions::add_to(CLI::App& app) {
  app.add_option("--metrics", metrics,
                 "write metrics in Prometheus' text format to FILE after each version and every 15 s "
                 "(docs/cli.md)")
      ->option_text("FILE")
      ->transform([](const std::string& path) { return absolute(path); });
  app.add_flag("--quiet", quiet, "no progress line, and no lines but of what goes wrong or ends the job");
  app.add_option("--log", log, "CropDL's lines as text (the default), or each as a JSON object (docs/cli.md)")
      ->option_text("text|json")
      ->check(CLI::IsMember({"text", "json"}))
      ->each(choose_log_format);
}

void ReportOptions::tell(launching::Boot* boot) const {
  boot->metrics = metrics;
  boot->quiet = quiet;
  boot->log = log_is_json() ? "json" : "text";
}

std::vector<std::string> ReportOptions::words() const {
  std::vector<std::string> words;
  if (!metrics.empty()) words.insert(words.end(), {"--metrics", metrics});
  if (quiet) words.push_back("--quiet");
  if (!log.empty()) words.insert(words.end(), {"--log", log});
  return words;
}

std::string absolute(const std::string& path) {
  if (path.empty() || path[0] == '/') return path;
  char cwd[4096];
  return getcwd(cwd, sizeof cwd) != nullptr ? std::string(cwd) + "/" + path : path;
}

bool parse_options(CLI::App& app, int argc, char** argv, std::vector<std::string>* program, int* status) {
  const auto wrong = [&](const std::string& line) {
    say(formatted("{}: {} (see {} --help)", app.get_name(), line, app.get_name()));
    *status = 2;  // docs/cli.md
    return false;
  };
  if (program != nullptr) app.prefix_command();  // the first word that is not an option ends the parsing
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& e) {
    *status = app.exit(e);
    return false;
  } catch (const CLI::ParseError& e) {
    return wrong(e.what());
  }
  if (program == nullptr) return true;
  // remaining() has, in this order: unknown options, `--`, and the program with its arguments.
  *program = app.remaining();
  if (!program->empty() && program->front() == "--")
    program->erase(program->begin());
  else if (!program->empty() && program->front().size() > 1 && program->front()[0] == '-')
    return wrong("unknown option " + in_quotes(program->front()));
  if (program->empty()) return wrong("no program given");
  return true;
}

}  // namespace cropdl::entry
