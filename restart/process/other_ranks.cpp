#include "restart/process/other_ranks.h"

#include <unistd.h>

#include <cstdlib>

#include "base/file.h"
#include "base/format.h"
#include "base/procfs.h"
#include "interpose/launch/launch.h"

namespace cropdl::process {
namespace {

// Whether the launcher started the process, and not this process.
bool is_below(pid_t launcher, pid_t pid) {
  constexpr int kMostAncestors = 16;
  for (int up = 0; pid > 1 && pid != getpid() && up < kMostAncestors; ++up) {
    if (pid == launcher) return true;
    pid = atoi(process_stat(std::to_string(pid), 4).c_str());
  }
  return false;
}

}  // namespace

bool is_file(const std::string& path, const struct stat& file) {
  struct stat there {};
  return stat(path.c_str(), &there) == 0 && there.st_dev == file.st_dev && there.st_ino == file.st_ino;
}

std::vector<pid_t> other_ranks() {
  std::vector<pid_t> ranks;
  const pid_t launcher = launching::launchers_process();
  struct stat lower_half {};
  if (launcher == 0 || stat("/proc/self/exe", &lower_half) != 0) return ranks;
  for (const pid_t pid : numbers_in("/proc"))
    if (is_file(formatted("/proc/{}/exe", pid), lower_half) && is_below(launcher, pid)) ranks.push_back(pid);
  return ranks;
}

}  // namespace cropdl::process
