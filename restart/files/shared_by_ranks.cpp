#include "restart/files/shared_by_ranks.h"

#include <linux/kcmp.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/file.h"
#include "base/format.h"
#include "base/procfs.h"
#include "restart/process/other_ranks.h"

namespace cropdl::files {
namespace {

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
  for (const pid_t rank : process::other_ranks())
    for (const int its : process::numbers_in(formatted("/proc/{}/fd", rank)))
      if (process::is_file(formatted("/proc/{}/fd/{}", rank, its), st) && is_one_description(fd, rank, its))
        return true;
  return false;
}

}  // namespace cropdl::files
