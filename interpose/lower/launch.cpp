#include "interpose/lower/launch.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>

#include "interpose/lower/process_stat.h"

namespace cropdl::lower {
namespace {

uint32_t number(const char* variable, uint32_t otherwise) {
  const char* text = getenv(variable);
  if (text == nullptr || *text < '0' || *text > '9') return otherwise;
  const unsigned long value = strtoul(text, nullptr, 10);
  return value < UINT32_MAX ? static_cast<uint32_t>(value) : otherwise;
}

std::string read_all(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::string base(const std::string& path) { return path.substr(path.rfind('/') + 1); }

pid_t parent_of(pid_t pid) {
  return static_cast<pid_t>(strtol(process_stat(std::to_string(pid), 4).c_str(), nullptr, 10));
}

// Start time since boot in clock ticks: with the pid it names a process for good.
std::string process_identity(pid_t pid) {
  const std::string since = process_stat(std::to_string(pid), 22);
  return std::to_string(pid) + (since.empty() ? "" : "." + since);
}

bool is_launcher(const std::string& exe) {
  for (const char* name : {"mpirun", "mpiexec", "orterun", "prterun", "mpiexec.hydra", "srun"})
    if (base(exe) == name) return true;
  return false;
}

void find_launcher(const std::string& program, Launch* launch) {
  pid_t pid = getppid();
  for (int up = 0; pid > 1 && up < 16; ++up, pid = parent_of(pid)) {
    char exe[4096];
    const ssize_t n = readlink(("/proc/" + std::to_string(pid) + "/exe").c_str(), exe, sizeof exe);
    if (n <= 0) continue;
    const std::string path(exe, static_cast<size_t>(n));
    if (!is_launcher(path)) continue;
    launch->launcher = path;
    const std::string line = read_all("/proc/" + std::to_string(pid) + "/cmdline");
    std::vector<std::string> words;
    for (size_t at = 0; at < line.size();) {
      words.emplace_back(line.c_str() + at);
      at += words.back().size() + 1;
    }
    for (size_t i = 1; i < words.size(); ++i) {
      const std::string name = base(words[i]);
      if (name != "cropdl-run" && name != "cropdl-restart" && name != base(program)) continue;
      launch->options.assign(words.begin() + 1, words.begin() + static_cast<long>(i));
      return;
    }
    launch->options = {
        "-n", std::to_string(launch->ranks)};  // behind a script: the number of ranks is what is sure
    return;
  }
}

}  // namespace

Launch read_launch(const std::string& program) {
  Launch launch;
  launch.flavour = "none";
  if (getenv("OMPI_COMM_WORLD_RANK") != nullptr) {
    launch.flavour = "openmpi";
    launch.rank = number("OMPI_COMM_WORLD_RANK", 0);
    launch.ranks = number("OMPI_COMM_WORLD_SIZE", 1);
    const char* job = getenv("PMIX_NAMESPACE");
    launch.run = std::string("openmpi-") + (job != nullptr ? job : process_identity(getppid()));
  } else if (getenv("PMI_RANK") != nullptr) {
    launch.flavour = "mpich";
    launch.rank = number("PMI_RANK", 0);
    launch.ranks = number("PMI_SIZE", 1);
    launch.run = "hydra-" + process_identity(getppid());  // the node's proxy
  } else {
    launch.run = "single-" + process_identity(getpid());
  }
  find_launcher(program, &launch);
  return launch;
}

}  // namespace cropdl::lower
