#include "interpose/entry/options.h"

#include <unistd.h>

#include <CLI/CLI.hpp>

#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <optional>

#include "base/format.h"
#include "base/say.h"
#include "base/time.h"
#include "base/words.h"
#include "restart/retention.h"

namespace cropdl::entry {
namespace {

using launching::Boot;

constexpr double kDay = 86400, kYear = 365.25 * kDay;          // seconds
constexpr double kShortest = 0.001, kLongest = 10 * kYear;     // between versions
constexpr double kLeastOverhead = 0.001, kMostOverhead = 100;  // percent
constexpr double kShortestMtbf = 1, kLongestMtbf = 1000 * kYear;

// The first 40 characters, for messages.
std::string in_quotes(const std::string& text) {
  return formatted("`{}{}`", text.substr(0, 40), text.size() > 40 ? "..." : "");
}

// --- Values: nothing if the text, with or without the unit, is no number.

// A value that underflows a double is not taken as zero.
std::optional<double> number(std::string text, const std::string& unit) {
  if (!unit.empty() && text.ends_with(unit)) text.resize(text.size() - unit.size());
  char* end = nullptr;
  errno = 0;
  double value = strtod(text.c_str(), &end);
  if (end == text.c_str() || *end != 0 || !std::isfinite(value)) return std::nullopt;
  if (value == 0 && errno == ERANGE) value = std::nextafter(0, 1);
  return value;
}

std::optional<double> duration(const std::string& text) {  // seconds
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

// Seconds since 1970, after "@": a time limit that another command of this job has converted.
std::optional<double> moment(const std::string& text) {
  return text.starts_with("@") ? number(text.substr(1), "") : std::nullopt;
}

// --- Checks before CLI11 converts the text: "" or a line that names the text, not a type's limits.

std::string why_not(const std::string& text, std::optional<double> value, double least, double most,
                    const char* kind, const char* bounds) {
  if (!value) return in_quotes(text) + " is not " + kind;
  return *value < least || *value > most ? in_quotes(text) + " is not between " + bounds : "";
}

std::string not_an_interval(const std::string& text) {
  const auto value = number(text, "");
  if (text == "auto" || value == 0.0) return "";
  return why_not(text, value, kShortest, kLongest, "a number of seconds", "0.001 seconds and ten years");
}

std::string not_a_percentage(const std::string& text) {
  return why_not(text, number(text, "%"), kLeastOverhead, kMostOverhead, "a number of percent",
                 "0.001 and 100 percent");
}

std::string not_a_duration(const std::string& text) {
  const auto value = duration(text);
  if (value == 0.0) return "";
  return why_not(text, value, kShortestMtbf, kLongestMtbf,
                 "a duration, such as 43200 (seconds), 30m, 12h or 3d", "a second and a thousand years");
}

std::string not_a_time_limit(const std::string& text) { return moment(text) ? "" : not_a_duration(text); }

std::string not_a_version(const std::string& text) {
  return is_positive_number(text, 18) ? "" : in_quotes(text) + " is not a version's number";
}

std::string not_a_device_count(const std::string& text) {
  constexpr int kMost = 16;  // gpu_state/software/settings
  // "true": the flag without a value
  if (text == "true" || (is_positive_number(text, 2) && atoi(text.c_str()) <= kMost)) return "";
  return in_quotes(text) + " is not a number of devices from 1 to 16";
}

std::string not_a_retention(const std::string& text) {
  return restart::parse_retention(text) ? "" : in_quotes(text) + restart::kIsNoRetention;
}

// A valid duration as a point in time; other texts are unchanged.
std::string from_now(const std::string& text) {
  const double limit = duration(text).value_or(0);
  return limit > 0 && not_a_duration(text).empty() ? formatted("@{:.3f}", unix_time() + limit) : text;
}

std::string absolute(const std::string& path) {  // "" stays ""
  if (path.empty() || path[0] == '/') return path;
  char cwd[4096];
  return getcwd(cwd, sizeof cwd) != nullptr ? std::string(cwd) + "/" + path : path;
}

// --- Options of both commands

// `interval_else`, `keep_else`: the defaults that the help texts name.
void add_schedule(CLI::App& app, Boot* boot, const char* interval_else, const char* keep_else) {
  app.add_option("--interval", boot->interval,
                 formatted("when to take checkpoints: at intervals that cost little (auto), every so many "
                           "seconds, or only when asked (0) (default: {})",
                           interval_else))
      ->option_text("auto|SECONDS|0")
      ->check(not_an_interval);
  app.add_option_function<std::string>(
         "--max-overhead",
         [boot](const std::string& text) { boot->max_overhead = number(text, "%").value_or(0) / 100; },
         "of auto: how much of the job's time checkpoints may cost, in percent (default: 1)")
      ->option_text("PERCENT")
      ->check(not_a_percentage);
  app.add_option_function<std::string>(
         "--mtbf", [boot](const std::string& text) { boot->mtbf = duration(text).value_or(0); },
         "of auto: the mean time between failures of the job's machines, in seconds or as 30m, 12h, "
         "3d; 0: unknown (the default)")
      ->option_text("DURATION")
      ->check(not_a_duration);
  app.add_option_function<std::string>(
         "--time-limit", [boot](const std::string& text) { boot->ends_at = moment(text).value_or(0); },
         "others end the job so long from now: before that, it takes a last version and ends with "
         "status 75; 0: never (default: what Slurm says, unless --interval 0)")
      ->option_text("DURATION")
      ->transform(from_now)
      ->check(not_a_time_limit);
  app.add_option("--at-sigterm", boot->at_sigterm,
                 "where the program leaves SIGTERM at its default: take a last version and end with status "
                 "75 (version, the default unless --interval 0), or die as without CropDL (die)")
      ->option_text("version|die")
      ->check(CLI::IsMember({"version", "die"}));
  app.add_option("--keep", boot->keep,
                 formatted("the job's versions that stay: the newest N, and the newest of each of the last H "
                           "hours and D days (default: {})",
                           keep_else))
      ->option_text("N[,Hh][,Dd]")
      ->check(not_a_retention);
  app.callback([boot] {
    const bool has_overhead = boot->max_overhead > 0;
    if (boot->interval.empty() || boot->interval == "auto" || (!has_overhead && boot->mtbf < 0)) return;
    throw CLI::ValidationError(has_overhead ? "--max-overhead" : "--mtbf",
                               "goes with --interval auto, not with --interval " + boot->interval);
  });
}

void add_reports(CLI::App& app, Boot* boot) {
  app.add_option("--metrics", boot->metrics,
                 "write metrics in Prometheus' text format to FILE after each version and every 15 s "
                 "(docs/cli.md)")
      ->option_text("FILE")
      ->transform(absolute);
  app.add_flag("--quiet", boot->quiet,
               "no progress line, and no lines but of what goes wrong or ends the job");
  app.add_option("--log", boot->log,
                 "CropDL's lines as text (the default), or each as a JSON object (docs/cli.md)")
      ->option_text("text|json")
      ->check(CLI::IsMember({"text", "json"}))
      ->each(choose_log_format);
}

void add_devices(CLI::App& app, Boot* boot, const char* gpu_text, const char* nccl_text) {
  app.add_flag_callback(
         "--software-gpu", [boot] { boot->software_gpu = true; }, gpu_text)
      ->option_text("[=N]")
      ->check(not_a_device_count)
      ->each([boot](const std::string& count) { boot->software_gpus = atoi(count.c_str()); });
  app.add_flag("--software-nccl", boot->software_nccl, nccl_text);
}

std::vector<GivenOption> given_options(const CLI::App& app) {
  std::vector<GivenOption> given;
  for (const CLI::Option* option : app.get_options()) {
    if (option->count() == 0 || option->get_positional()) continue;
    const bool is_flag = option->get_expected_max() == 0;
    const std::string& value = option->results().back();
    if (is_flag ? option->as<bool>() : !value.empty()) given.push_back({option->get_name(), value, is_flag});
  }
  return given;
}

// Parses options up to `--` or the first word that is not an option. `has_program`: the remaining words are
// the program's; else they are an error.
bool parse(CLI::App& app, int argc, char** argv, bool has_program, Options* options, int* status) {
  const auto wrong = [&](const std::string& line) {
    say(formatted("{}: {} (see {} --help)", app.get_name(), line, app.get_name()));
    *status = 2;  // docs/cli.md
    return false;
  };
  for (CLI::Option* option : app.get_options())
    if (option->get_expected_max() == 0 && option->get_option_text().empty()) option->disable_flag_override();
  if (has_program) app.prefix_command();  // the first word that is not an option ends the parsing
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& e) {
    *status = app.exit(e);
    return false;
  } catch (const CLI::ArgumentMismatch& e) {
    // Of "--quiet=5" CLI11 says that it was given a disallowed flag override.
    const std::string line = e.what(),
                      option = line.substr(0, line.find(" was given a disallowed flag override"));
    return wrong(option == line ? line : "--" + option + " takes no value");
  } catch (const CLI::ParseError& e) {
    return wrong(e.what());
  }
  options->given = given_options(app);
  options->boot.log = log_is_json() ? "json" : "text";
  if (!has_program) return true;
  // remaining() has, in this order: unknown options, `--`, and the program with its arguments.
  std::vector<std::string>& program = options->program;
  program = app.remaining();
  if (!program.empty() && program.front() == "--")
    program.erase(program.begin());
  else if (!program.empty() && program.front().size() > 1 && program.front()[0] == '-')
    return wrong("unknown option " + in_quotes(program.front()));
  return !program.empty() || wrong("no program given");
}

}  // namespace

std::vector<std::string> Options::given_words() const {
  std::vector<std::string> words;
  for (const auto& [name, value, is_flag] : given)
    if (is_flag)
      words.push_back(value == "true" ? name : name + "=" + value);
    else
      words.insert(words.end(), {name, value});
  return words;
}

bool parse_run(int argc, char** argv, Options* options, int* status) {
  Boot& boot = options->boot;
  CLI::App app{
      "Runs PROGRAM so that it can be checkpointed and restarted. Under MPI: mpirun -n N cropdl-run PROGRAM",
      "cropdl-run"};
  app.footer(
      "Then `--` or the first word that is no option: PROGRAM ARGS...\n\n"
      "Examples:\n"
      "  mpirun -n 4 cropdl-run ./train --epochs 90\n"
      "  mpirun -n 4 cropdl-run --dir /scratch/train.ckpt --interval 3600 ./train --epochs 90\n"
      "  cropdl-run --time-limit 4h --keep 2 python3 train.py");
  app.set_version_flag("--version", "cropdl " CROPDL_VERSION);
  boot.directory = "cropdl.ckpt";
  app.add_option("--dir", boot.directory, "where checkpoints go (default: ./cropdl.ckpt)")
      ->option_text("DIR");
  add_schedule(app, &boot, "auto", "4");
  add_reports(app, &boot);
  app.add_option_function<double>(
         "--save-files", [&boot](double bytes) { boot.save_files = static_cast<uint64_t>(bytes); },
         "save at most so many bytes of files that the program has open for writing in place (default: 1e9)")
      ->option_text("BYTES")
      ->check(CLI::Range(1.0, 1e18));
  app.add_flag(
      "--by-reference", boot.by_reference,
      "leave out of images what the program's and its libraries' files hold: smaller, but a restart is "
      "refused when one of them has changed");
  app.add_flag(
      "--compress", boot.compress,
      "compress images (zstd): smaller, but the program stands still longer unless the disk is slow");
  add_devices(app, &boot,
              "the program's CUDA calls go to N software devices (docs/software-gpu.md) instead of GPUs",
              "the program's NCCL calls go to CropDL's own NCCL, which copies through host memory: ranks "
              "may share a GPU (docs/software-gpu.md)");
  app.add_option("--argv0", options->argv0)->group("");  // for libcropdl.so; not in --help
  if (!parse(app, argc, argv, true, options, status)) return false;
  boot.directory = absolute(boot.directory);
  return true;
}

bool parse_restart(int argc, char** argv, Options* options, int* status) {
  Boot& boot = options->boot;
  CLI::App app{"Continues a job from its newest whole version in DIR.", "cropdl-restart"};
  app.footer(
      "Without a launcher it starts the one that the version names.\n\n"
      "Examples:\n"
      "  cropdl-restart cropdl.ckpt\n"
      "  mpirun -n 4 cropdl-restart --interval 3600 cropdl.ckpt\n"
      "  cropdl-restart --version 6 --time-limit 4h cropdl.ckpt");
  app.set_version_flag("--program-version", "cropdl " CROPDL_VERSION);
  app.add_option("--version", boot.version, "this version instead of the newest")
      ->option_text("N")
      ->check(not_a_version);
  add_schedule(app, &boot, "as before", "as before");
  add_reports(app, &boot);
  add_devices(app, &boot,
              "continue on N software devices (default: as many as before), and refuse a version that was "
              "not taken on such; not needed otherwise, since versions record it",
              "continue with CropDL's own NCCL (docs/software-gpu.md); not needed if the version was taken "
              "with it");
  app.add_option_function<std::string>(
         "--moved-variables", [&boot](const std::string&) { boot.moved_variables = true; },
         "go on though device variables lie elsewhere than they did: only if no kernel keeps the "
         "address of one")
      ->option_text("accept")
      ->check(CLI::IsMember({"accept"}));
  app.add_option("--files", boot.files,
                 "files that the program writes to: make them as they were (truncate, the default), leave "
                 "them as they are (keep), or refuse if they differ (fail)")
      ->option_text("WORD")
      ->check(CLI::IsMember({"keep", "truncate", "fail"}));
  app.add_option("DIR", boot.directory, "the directory of the checkpoints")->required();
  return parse(app, argc, argv, false, options, status);
}

}  // namespace cropdl::entry
