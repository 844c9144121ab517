// cropdl-run [--dir DIR] [--interval SECONDS] [--] PROGRAM ARGS...: becomes the lower half that runs PROGRAM.
// Linked statically and entered through quiet_start.S, so that SIGUSR1 (which launchers forward to ask for a
// checkpoint) is ignored from the first instruction on.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "interpose/entry/program.h"
#include "interpose/lower/boot.h"
#include "interpose/lower/launch.h"

namespace {

using namespace cropdl;

int fail(const std::string& line) {
  fprintf(stderr, "cropdl-run: %s\n", line.c_str());
  return 1;
}

std::string absolute(const std::string& path) {
  if (path.empty() || path[0] == '/') return path;
  char cwd[4096];
  return getcwd(cwd, sizeof cwd) != nullptr ? std::string(cwd) + "/" + path : path;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{
      "Runs PROGRAM so that it can be checkpointed and restarted. Under MPI: mpirun -n N cropdl-run PROGRAM"};
  app.set_version_flag("--version", "cropdl " CROPDL_VERSION);
  std::string directory = "cropdl.ckpt";
  double interval = 0;
  std::vector<std::string> command;
  app.add_option("--dir", directory, "where checkpoints go (default: ./cropdl.ckpt)")->option_text("DIR");
  app.add_option("--interval", interval, "take a checkpoint every so many seconds (default: only when asked)")
      ->option_text("SECONDS")
      ->check(CLI::PositiveNumber);
  app.add_option("command", command, "the program and its arguments")->option_text("PROGRAM ARGS...");
  app.prefix_command();
  app.positionals_at_end(true);
  // Everything from the program's name on is the program's: CLI11 must not look at it.
  int own = 1;
  while (own < argc) {
    const std::string word = argv[own];
    if (word == "--") break;
    if (word == "--dir" || word == "--interval")
      own += 2;
    else if (!word.empty() && word[0] == '-')
      ++own;
    else
      break;
  }
  std::vector<std::string> rest(argv + std::min(own, argc), argv + argc);
  if (!rest.empty() && rest.front() == "--") rest.erase(rest.begin());
  try {
    app.parse(std::min(own, argc), argv);
  } catch (const CLI::Success& e) {
    return app.exit(e);
  } catch (const CLI::ParseError& e) {
    return fail(std::string(e.what()) + " (see cropdl-run --help)");
  }
  if (rest.empty()) return fail("no program given (see cropdl-run --help)");

  const auto path = entry::find_program(rest.front());
  if (!path) return fail(path.error().message);
  const auto facts = entry::inspect_program(*path);
  if (!facts) return fail(facts.error().message);

  lower::Boot boot;
  boot.directory = absolute(directory);
  boot.interval = interval;
  boot.program = facts->path;
  boot.installation = entry::library_directory();
  if (boot.installation.empty())
    return fail("its libraries are not beside it (lib/cropdl-core.so); install CropDL again");
  const char* preload = getenv("LD_PRELOAD");
  if (preload != nullptr) boot.preload = preload;

  if (facts->kind == entry::ProgramKind::kScript) {
    // The script runs as it is; the preload entrance protects the program that it execs.
    setenv("CROPDL_DIR", boot.directory.c_str(), 1);
    if (interval > 0) setenv("CROPDL_INTERVAL", std::to_string(interval).c_str(), 1);
    const std::string ours = boot.installation + "/libcropdl.so";
    if (boot.preload.find(ours) == std::string::npos)
      setenv("LD_PRELOAD", boot.preload.empty() ? ours.c_str() : (ours + ":" + boot.preload).c_str(), 1);
    return fail(entry::become(facts->path, rest).message);
  }

  // argv[0] as the program would have it
  return fail(
      entry::become_lower_half(boot, lower::read_launch(facts->path).flavour, facts->mpi, rest).message);
}
