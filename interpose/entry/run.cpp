// cropdl-run [--dir DIR] [--interval auto|SECONDS|0] [--] PROGRAM ARGS...: execs the lower half, which runs
// PROGRAM. Linked statically and entered through quiet_start.S, so that SIGUSR1 (which launchers forward to
// request a checkpoint) is ignored from the first instruction on.
#include <cstdlib>
#include <exception>
#include <string>
#include <vector>

#include "base/format.h"
#include "base/say.h"
#include "interpose/entry/options.h"
#include "interpose/entry/program.h"
#include "interpose/entry/variables.h"
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

// Orders for a program that a starter starts later: libcropdl.so in it gives them to cropdl-run.
void leave_orders(entry::Options& options) {
  options.given.push_back({"--dir", options.boot.directory, false});
  for (const entry::GivenOption& given : options.given)
    for (const entry::Variable& v : entry::kVariables)
      if (given.name == v.option) setenv(v.name, v.value == v.kNone ? "1" : given.value.c_str(), 1);
}

int run(entry::Options& options) {
  launching::Boot& boot = options.boot;
  std::vector<std::string>& words = options.program;
  const auto found = entry::find_program(words.front());
  if (!found) return fail(found.error().message);
  const auto facts = entry::inspect_program(found->path);
  if (!facts) return fail(facts.error().message);

  boot.program = facts->path;
  if (Status s = entry::library_directory().move_to(boot.installation); !s) return fail(s.error().message);
  if (boot.software_gpu && launching::software_gpu_directory(boot.installation).empty())
    return fail(
        "the software GPU is not installed: build CropDL where the CUDA toolkit's headers are "
        "(CROPDL_CUDA_ROOT)");
  if (boot.software_nccl && launching::software_nccl_directory(boot.installation).empty())
    return fail(
        "the software NCCL is not installed: build CropDL where the CUDA toolkit's headers and nccl.h are "
        "(CROPDL_CUDA_ROOT)");
  const char* preload = getenv("LD_PRELOAD");
  if (preload != nullptr) boot.preload = preload;

  const Result<launching::Launch> launch = launching::read_launch(facts->path);
  const std::string ours = boot.installation + "/libcropdl.so";
  if (!options.argv0.empty()) words[0] = options.argv0;
  if (facts->kind == entry::ProgramKind::kNative) {
    say(launch, formatted("{} runs natively and unprotected: {}", facts->path, facts->why));
    setenv("LD_PRELOAD", entry::without_entrance(boot.preload).c_str(), 1);
    return fail(entry::become(found->name, words).message);  // a script: the kernel reads its first line
  }
  if (facts->kind == entry::ProgramKind::kStarter) {
    // A starter runs natively; libcropdl.so protects the program that it execs.
    say(launch, facts->path + " itself runs unprotected; an MPI program that it starts is protected");
    leave_orders(options);
    if (boot.preload.find(ours) == std::string::npos)
      setenv("LD_PRELOAD", boot.preload.empty() ? ours.c_str() : (ours + ":" + boot.preload).c_str(), 1);
    return fail(entry::become(found->name, words).message);
  }
  // What a protected program executes is not protected: it would be a second process of the same rank.
  boot.preload = entry::without_entrance(boot.preload);
  if (!launch) return fail(launch.error().message);
  boot.sanitizer = facts->sanitizer;
  if (!facts->before.empty()) {  // like the kernel, passes the script's path instead of its name: execve(2)
    words[0] = found->name;
    boot.script = found->path;
    words.insert(words.begin(), facts->before.begin(), facts->before.end());
  }

  // The program gets argv[0] unchanged.
  return fail(entry::become_lower_half(boot, launch->flavour, facts->mpi, words).message);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    entry::Options options;
    int status = 0;
    return entry::parse_run(argc, argv, &options, &status) ? run(options) : status;
  } catch (const std::exception& e) {  // out of memory
    return fail(e.what());
  }
}
