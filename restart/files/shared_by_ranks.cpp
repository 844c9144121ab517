#include "restart/files/shared_by_ranks.h"

#include <linux/kcmp.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <vector>

#include "base/file.h"
#include "base/format.h"
#include "base/procfs.h"
#include "interpose/launch/launch.h"

namespace cropdl::files {
namespace {

namespace fs = std::filesystem;

bool is_file(const std::string& path, const struct stat& st) {
  struct stat there {};
  return stat(path.c_str(), &there) == 0 && there.st_dev == st.st_dev && there.st_ino == st.st_ino;
}

// The numbers that name the entries of a directory in /proc.
std::vector<int> numbers_in(const std::string& directory) {
  std::vector<int> numbers;
  std::error_code failure;
  for (fs::directory_iterator at(directory, failure); !failure && at != fs::directory_iterator();
       at.increment(failure))
    if (const std::string name = at->path().filename(); name[0] >= '0' && name[0] <= '9')
      numbers.push_back(atoi(name.c_str()));
  return numbers;
}

// Whether the launcher started the process, and not this process.
bool is_below(pid_t launcher, pid_t pid) {
  constexpr int kMostAncestors = 16;
  for (int up = 0; pid > 1 && pid != getpid() && up < kMostAncestors; ++up) {
    if (pid == launcher) return true;
    pid = atoi(process_stat(std::to_string(pid), 4).c_str());
  }
  return false;
}

// The other ranks of this job on this node.
std::vector<pid_t> other_ranks() {
  std::vector<pid_t> ranks;
  const pid_t launcher = launching::launchers_process();
  struct stat lower_half {};
  if (launcher == 0 || stat("/proc/self/exe", &lower_half) != 0) return ranks;
  for (const pid_t pid : numbers_in("/proc"))
    if (is_file(formatted("/proc/{}/exe", pid), lower_half) && is_below(launcher, pid)) ranks.push_back(pid);
  return ranks;
}

std::string offset_line(const std::string& process, int fd) {
  const std::string info = kernel_text(formatted("/proc/{}/fdinfo/{}", process, fd));
  return info.substr(0, info.find('\n'));
}

bool is_one_description(int fd, pid_t rank, int its) {
  const long order = syscall(SYS_kcmp, getpid(), rank, KCMP_FILE, fd, its);
  if (order >= 0) return order == 0;
  return fd == its && offset_line("thread-self", fd) == offset_line(std::to_string(rank), its);
}

}  // namespace

bool is_shared_by_ranks(int fd, const struct stat& st) {
  for (const pid_t rank : other_ranks())
    for (const int its : numbers_in(formatted("/proc/{}/fd", rank)))
      if (is_file(formatted("/proc/{}/fd/{}", rank, its), st) && is_one_description(fd, rank, its))
        return true;
  return false;
}

}  // namespace cropdl::files
