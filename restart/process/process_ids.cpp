#include "restart/process/process_ids.h"

#include <unistd.h>

#include <cstdlib>
#include <set>
#include <sstream>

#include "base/file.h"
#include "base/format.h"
#include "base/procfs.h"
#include "interpose/launch/launch.h"
#include "interpose/seam/control_page.h"
#include "interpose/seam/state.h"

namespace cropdl::process {
namespace {

struct ToldIds {
  int32_t virtual_pid = 0, kernel_pid = 0;
  std::string pid_namespace;
  explicit ToldIds(const std::string& told) {
    std::istringstream(told) >> virtual_pid >> kernel_pid >> pid_namespace;
  }
};

// The core updates the pair if the program changes its group or session after a restart. After other changes
// (a new parent after the old one's death) the program sees the kernel's id.
void note(int32_t now, int32_t& upper, int32_t& real) {
  if (upper == 0 || now != real) upper = now;
  real = now;
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

}  // namespace

void note_ids() {
  auto& ids = seam::state()->ids;
  note(getppid(), ids.virtual_parent, ids.kernel_parent);
  note(getpgrp(), ids.virtual_group, ids.kernel_group);
  note(getsid(0), ids.virtual_session, ids.kernel_session);
}

void take_place_of_ids() {
  auto* state = seam::state();
  state->kernel_pid = getpid();
  state->ids.kernel_parent = getppid();
  state->ids.kernel_group = getpgrp();
  state->ids.kernel_session = getsid(0);
}

std::string told_ids() {
  struct stat space {};
  if (stat("/proc/self/ns/pid", &space) != 0) space = {};
  return formatted("{} {} {}:{}", seam::state()->virtual_pid, getpid(), space.st_dev, space.st_ino);
}

void know_other_ranks(const std::vector<std::string>& all, size_t own) {
  seam::RankIds& known = seam::writable_control->other_ranks;
  known.entries = 0;
  const ToldIds self(all[own]);
  std::set<int32_t> taken{self.virtual_pid};  // in pid namespaces of their own, ranks had equal ids
  for (size_t r = 0; r < all.size() && known.entries < seam::RankIds::kMax; ++r) {
    const ToldIds ids(all[r]);
    if (r == own || ids.virtual_pid <= 0 || ids.kernel_pid <= 0 || ids.pid_namespace != self.pid_namespace)
      continue;
    if (taken.insert(ids.virtual_pid).second)
      known.ranks[known.entries++] = {ids.virtual_pid, ids.kernel_pid};
  }
}

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
