#include "interpose/entry/options.h"

#include <unistd.h>

#include <CLI/CLI.hpp>

#include "base/format.h"
#include "base/say.h"
#include "base/time.h"
#include "interpose/entry/option_values.h"

namespace cropdl::entry {
namespace {

// Parses options up to `--` or the first word that is not an option. `program` gets the remaining words;
// if `program` is null, remaining words are an error. Returns false if the process must exit with `*status`.
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

}  // namespace

void ScheduleOptions::add_to(CLI::App& app, const char* interval_else, const char* keep_else) {
  app.add_option("--interval", interval,
                 formatted("when to take checkpoints: at intervals that cost little (auto), every so many "
                           "seconds, or only when asked (0) (default: {})",
                           interval_else))
      ->option_text("auto|SECONDS|0")
      ->check(not_an_interval);
  app.add_option("--max-overhead", max_overhead,
                 "of auto: how much of the job's time checkpoints may cost, in percent (default: 1)")
      ->option_text("PERCENT")
      ->check(not_a_percentage);
  app.add_option("--mtbf", mtbf,
                 "of auto: the mean time between failures of the job's machines, in seconds or as 30m, 12h, "
                 "3d; 0: unknown (the default)")
      ->option_text("DURATION")
      ->check(not_a_duration);
  app.add_option("--time-limit", time_limit,
                 "others end the job so long from now: before that, it takes a last version and ends with "
                 "status 75; 0: never (default: what Slurm says, unless --interval 0)")
      ->option_text("DURATION")
      ->check(not_a_time_limit);
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
      ->check(not_a_retention);
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

void DeviceOptions::add_to(CLI::App& app, const char* gpu_text, const char* nccl_text) {
  app.add_flag("--software-gpu", software_gpus, gpu_text)->option_text("[=N]")->check(not_a_device_count);
  app.add_flag("--software-nccl", software_nccl, nccl_text);
}

void DeviceOptions::tell(launching::Boot* boot) const {
  boot->software_gpu = !software_gpus.empty();
  boot->software_gpus = atoi(software_gpus.c_str());
  boot->software_nccl = software_nccl;
}

std::vector<std::string> DeviceOptions::words() const {
  std::vector<std::string> words;
  if (!software_gpus.empty()) words.push_back("--software-gpu=" + software_gpus);
  if (software_nccl) words.push_back("--software-nccl");
  return words;
}

std::string absolute(const std::string& path) {
  if (path.empty() || path[0] == '/') return path;
  char cwd[4096];
  return getcwd(cwd, sizeof cwd) != nullptr ? std::string(cwd) + "/" + path : path;
}

bool RunOptions::parse(int argc, char** argv, int* status) {
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
  app.add_option("--dir", directory, "where checkpoints go (default: ./cropdl.ckpt)")->option_text("DIR");
  schedule.add_to(app, "auto", "4");
  reports.add_to(app);
  double bytes = 0;
  app.add_option(
         "--save-files", bytes,
         "save at most so many bytes of files that the program has open for writing in place (default: 1e9)")
      ->option_text("BYTES")
      ->check(CLI::Range(1.0, 1e18));
  app.add_flag(
      "--by-reference", by_reference,
      "leave out of images what the program's and its libraries' files hold: smaller, but a restart is "
      "refused when one of them has changed");
  devices.add_to(app,
                 "the program's CUDA calls go to N software devices (docs/software-gpu.md) instead of GPUs",
                 "the program's NCCL calls go to CropDL's own NCCL, which copies through host memory: ranks "
                 "may share a GPU (docs/software-gpu.md)");
  app.add_option("--argv0", argv0)->group("");  // for libcropdl.so; not in --help
  if (!parse_options(app, argc, argv, &words, status)) return false;
  save_files = static_cast<uint64_t>(bytes);
  return true;
}

bool RestartOptions::parse(int argc, char** argv, int* status) {
  CLI::App app{"Continues a job from its newest whole version in DIR.", "cropdl-restart"};
  app.footer(
      "Without a launcher it starts the one that the version names.\n\n"
      "Examples:\n"
      "  cropdl-restart cropdl.ckpt\n"
      "  mpirun -n 4 cropdl-restart --interval 3600 cropdl.ckpt\n"
      "  cropdl-restart --version 6 --time-limit 4h cropdl.ckpt");
  app.set_version_flag("--program-version", "cropdl " CROPDL_VERSION);
  app.add_option("--version", version, "this version instead of the newest")
      ->option_text("N")
      ->check(not_a_version);
  schedule.add_to(app, "as before", "as before");
  reports.add_to(app);
  devices.add_to(
      app,
      "continue on N software devices (default: as many as before), and refuse a version that was "
      "not taken on such; not needed otherwise, since versions record it",
      "continue with CropDL's own NCCL (docs/software-gpu.md); not needed if the version was taken "
      "with it");
  app.add_option("--moved-variables", moved_variables,
                 "go on though device variables lie elsewhere than they did: only if no kernel keeps the "
                 "address of one")
      ->option_text("accept")
      ->check(CLI::IsMember({"accept"}));
  app.add_option("--files", files,
                 "files that the program writes to: make them as they were (truncate, the default), leave "
                 "them as they are (keep), or refuse if they differ (fail)")
      ->option_text("WORD")
      ->check(CLI::IsMember({"keep", "truncate", "fail"}));
  app.add_option("DIR", directory, "the directory of the checkpoints")->required();
  return parse_options(app, argc, argv, nullptr, status);
}

static std::vector<std::string> together(std::vector<std::string> words,
                                         std::initializer_list<std::vector<std::string>> others) {
  for (const std::vector<std::string>& more : others) words.insert(words.end(), more.begin(), more.end());
  return words;
}

std::vector<std::string> RunOptions::option_words() const {
  std::vector<std::string> words = together(schedule.words(), {reports.words(), devices.words()});
  if (save_files != 0) words.insert(words.end(), {"--save-files", std::to_string(save_files)});
  if (by_reference) words.push_back("--by-reference");
  return words;
}

std::vector<std::string> RestartOptions::words() const {
  std::vector<std::string> words;
  if (version != 0) words = {"--version", std::to_string(version)};
  words = together(std::move(words), {schedule.words(), reports.words(), devices.words()});
  if (!files.empty()) words.insert(words.end(), {"--files", files});
  if (!moved_variables.empty()) words.insert(words.end(), {"--moved-variables", moved_variables});
  return words;
}

}  // namespace cropdl::entry
