// cropdl-run [--dir DIR] [--interval auto|SECONDS|0] [--] PROGRAM ARGS...: execs the lower half, which runs
// PROGRAM. Linked statically and entered through quiet_start.S, so that SIGUSR1 (which launchers forward to
// request a checkpoint) is ignored from the first instruction on.
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "base/format.h"
#include "base/say.h"
#include "interpose/entry/options.h"
#include "interpose/entry/program.h"
#include "interpose/launch/boot.h"
#include "interpose/launch/launch.h"

namespace {

using namespace cropdl;

int fail(const std::string& line) {
  cropdl::say("cropdl-run: " + line);
  return 1;
}

// Prints once per job if the ranks are known, else once per process.
void say(const Result<launching::Launch>& launch, const std::string& line) {
  if (!launch || launch->rank == 0) cropdl::say("cropdl-run: " + line);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{
      "Runs PROGRAM so that it can be checkpointed and restarted. Under MPI: mpirun -n N cropdl-run PROGRAM",
      "cropdl-run"};
  app.footer("Then `--` or the first word that is no option: PROGRAM ARGS...");
  app.set_version_flag("--version", "cropdl " CROPDL_VERSION);
  std::string directory = "cropdl.ckpt";
  app.add_option("--dir", directory, "where checkpoints go (default: ./cropdl.ckpt)")->option_text("DIR");
  entry::ScheduleOptions schedule;
  schedule.add_to(app, "auto", "4");
  entry::ReportOptions reports;
  reports.add_to(app);
  double save_files = 0;
  app.add_option(
         "--save-files", save_files,
         "save at most so many bytes of files that the program has open for writing in place (default: 1e9)")
      ->option_text("BYTES")
      ->check(CLI::Range(1.0, 1e18));
  bool by_reference = false;
  app.add_flag(
      "--by-reference", by_reference,
      "leave out of images what the program's and its libraries' files hold: smaller, but a restart is "
      "refused when one of them has changed");
  std::string software_gpus;  // "true": the number is in the environment
  app.add_flag("--software-gpu", software_gpus,
               "the program's CUDA calls go to N software devices (docs/software-gpu.md) instead of GPUs")
      ->option_text("[=N]")
      ->check(entry::device_count_value());
  std::vector<std::string> words;
  int status = 0;
  if (!entry::parse_options(app, argc, argv, &words, &status)) return status;

  const auto path = entry::find_program(words.front());
  if (!path) return fail(path.error().message);
  const auto facts = entry::inspect_program(*path);
  if (!facts) return fail(facts.error().message);

  launching::Boot boot;
  boot.directory = entry::absolute(directory);
  schedule.tell(&boot);
  reports.tell(&boot);
  boot.save_files = static_cast<uint64_t>(save_files);
  boot.by_reference = by_reference;
  boot.software_gpu = !software_gpus.empty();
  boot.software_gpus = atoi(software_gpus.c_str());
  boot.program = facts->path;
  boot.installation = entry::library_directory();
  if (boot.installation.empty())
    return fail("its libraries are not beside it (lib/cropdl-core.so); install CropDL again");
  if (boot.software_gpu && launching::software_gpu_directory(boot.installation).empty())
    return fail(
        "the software GPU is not installed: build CropDL where the CUDA toolkit's headers are "
        "(CROPDL_CUDA_ROOT)");
  const char* preload = getenv("LD_PRELOAD");
  if (preload != nullptr) boot.preload = preload;

  const Result<launching::Launch> launch = launching::read_launch(facts->path);
  const std::string ours = boot.installation + "/libcropdl.so";
  if (facts->kind == entry::ProgramKind::kNative) {
    say(launch, formatted("{} runs natively and unprotected: {}", facts->path, facts->why));
    setenv("LD_PRELOAD", entry::without(boot.preload, ours).c_str(), 1);
    return fail(entry::become(*path, words).message);  // a script itself: the kernel reads its first line
  }
  if (facts->kind == entry::ProgramKind::kStarter) {
    // A starter runs natively; libcropdl.so protects the program that it execs.
    say(launch, facts->path + " itself runs unprotected; an MPI program that it starts is protected");
    setenv("CROPDL_DIR", boot.directory.c_str(), 1);
    if (!schedule.interval.empty()) setenv("CROPDL_INTERVAL", schedule.interval.c_str(), 1);
    if (!schedule.max_overhead.empty()) setenv("CROPDL_MAX_OVERHEAD", schedule.max_overhead.c_str(), 1);
    if (!schedule.mtbf.empty()) setenv("CROPDL_MTBF", schedule.mtbf.c_str(), 1);
    if (!schedule.time_limit.empty()) setenv("CROPDL_TIME_LIMIT", schedule.time_limit.c_str(), 1);
    if (!schedule.at_sigterm.empty()) setenv("CROPDL_AT_SIGTERM", schedule.at_sigterm.c_str(), 1);
    if (!schedule.keep.empty()) setenv("CROPDL_KEEP", schedule.keep.c_str(), 1);
    if (!reports.metrics.empty()) setenv("CROPDL_METRICS", reports.metrics.c_str(), 1);
    if (reports.quiet) setenv("CROPDL_QUIET", "1", 1);
    if (!reports.log.empty()) setenv("CROPDL_LOG", reports.log.c_str(), 1);
    if (save_files > 0) setenv("CROPDL_SAVE_FILES", std::to_string(boot.save_files).c_str(), 1);
    if (by_reference) setenv("CROPDL_BY_REFERENCE", "1", 1);
    if (boot.software_gpu) setenv("CROPDL_ON_SOFTWARE_GPUS", software_gpus.c_str(), 1);
    if (boot.preload.find(ours) == std::string::npos)
      setenv("LD_PRELOAD", boot.preload.empty() ? ours.c_str() : (ours + ":" + boot.preload).c_str(), 1);
    return fail(entry::become(facts->path, words).message);
  }
  if (!launch) return fail(launch.error().message);
  boot.sanitizer = facts->sanitizer;
  if (!facts->before.empty()) {  // like the kernel, passes the script's path instead of its name: execve(2)
    words[0] = *path;
    words.insert(words.begin(), facts->before.begin(), facts->before.end());
  }

  // The program gets argv[0] unchanged.
  return fail(entry::become_lower_half(boot, launch->flavour, facts->mpi, words).message);
}
