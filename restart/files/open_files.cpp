#include "restart/files/open_files.h"

#include <fcntl.h>
#include <linux/kcmp.h>
#include <linux/magic.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <map>

#include "base/file.h"
#include "base/format.h"
#include "interpose/seam/state.h"
#include "restart/files/descriptors.h"
#include "restart/process/process_ids.h"

namespace cropdl::files {
namespace {

// "a pipe", "a socket", ... for a refusal.
std::string kind_of(const struct stat& st, const std::string& link) {
  if (S_ISFIFO(st.st_mode)) return "a pipe";
  if (S_ISSOCK(st.st_mode)) return "a socket";
  if (link.rfind("anon_inode:", 0) == 0) {
    std::string name = link.substr(strlen("anon_inode:"));
    if (!name.empty() && name[0] == '[') name = name.substr(1, name.size() - 2);
    return "an open " + name;
  }
  if (S_ISBLK(st.st_mode)) return "the block device " + link;
  return link;
}

// Devices without state: null, zero, full, random, urandom (Linux, devices.txt).
bool is_stateless_device(const struct stat& st) {
  if (!S_ISCHR(st.st_mode) || major(st.st_rdev) != 1) return false;
  for (const unsigned minor : {3u, 5u, 7u, 8u, 9u})
    if (minor(st.st_rdev) == minor) return true;
  return false;
}

// Whether a pipe or socket is empty and has no writer.
bool is_at_its_end(int fd, const struct stat& st) {
  char byte;
  return S_ISSOCK(st.st_mode) ? recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0 : is_pipe_at_its_end(fd);
}

// What is written to a file of these is a command or a setting, which a descriptor may keep (/proc/pressure).
bool is_of_the_kernel(const struct statfs& fs) {
  constexpr decltype(fs.f_type) kKernels[] = {PROC_SUPER_MAGIC,     SYSFS_MAGIC,      CGROUP_SUPER_MAGIC,
                                              CGROUP2_SUPER_MAGIC,  DEBUGFS_MAGIC,    TRACEFS_MAGIC,
                                              RDTGROUP_SUPER_MAGIC, SECURITYFS_MAGIC, SELINUX_MAGIC,
                                              EFIVARFS_MAGIC,       BINFMTFS_MAGIC,   SMACK_MAGIC};
  return std::ranges::find(kKernels, fs.f_type) != std::end(kKernels);
}

// Whether the program has asked for a lock on this file, which a server has then (seam::FuseLocks).
bool may_have_fuse_lock(int fd, const struct stat& st) {
  const seam::FuseLocks& known = seam::state()->fuse_locks;
  for (uint32_t i = 0; i < std::min(known.entries, known.kMax); ++i)
    if (known.device[i] == st.st_dev && known.inode[i] == st.st_ino) return true;
  struct statfs fs {};
  return known.entries > known.kMax && fstatfs(fd, &fs) == 0 && fs.f_type == FUSE_SUPER_MAGIC;
}

// "" or a refusal of a file that a restart could not open again, or would open as another one.
std::string why_not(int fd, const struct stat& st, const std::string& path) {
  const std::string number = formatted(" (descriptor {})", fd);
  if (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode) && !S_ISCHR(st.st_mode))
    return formatted("{}{} cannot be saved yet{}", kind_of(st, path), number, advice_on_given(fd));
  if (S_ISCHR(st.st_mode) && !is_stateless_device(st))
    return formatted("the device {}{} cannot be saved yet: it has a state of its own", path, number);
  struct statfs fs {};
  if (fstatfs(fd, &fs) == 0 && fs.f_type == 0x19800202 /* MQUEUE_MAGIC, ipc/mqueue.c */)
    return formatted("the POSIX message queue {}{} cannot be saved yet", path, number);
  if (fs.f_type == PROC_SUPER_MAGIC && path.rfind("/proc/", 0) == 0 && path[6] >= '0' && path[6] <= '9')
    return formatted("{}{} cannot be saved: it is of this very process; close it before the checkpoint", path,
                     number);
  if (const int flags = fcntl(fd, F_GETFL);
      S_ISREG(st.st_mode) && (flags & O_PATH) == 0 && (flags & O_ACCMODE) != O_RDONLY && is_of_the_kernel(fs))
    return formatted(
        "{}{} cannot be saved yet: it is open for writing, and the kernel does not tell what was written to "
        "it; close it before the checkpoint",
        path, number);
  struct stat there {};
  if (path.empty())
    return formatted("the file of {} has a path that is too long to be opened again",
                     number.substr(2, number.size() - 3));
  if (path[0] == '/' && stat(path.c_str(), &there) != 0 && errno != ENOENT && errno != ENOTDIR)
    return formatted("the program's file {}{} cannot be looked at by its name: {}", path, number,
                     errno_text(errno));
  const bool may_be_hidden =
      S_ISREG(st.st_mode) && (fs.f_type == NFS_SUPER_MAGIC || fs.f_type == FUSE_SUPER_MAGIC);
  if (path[0] != '/' || stat(path.c_str(), &there) != 0 || there.st_dev != st.st_dev ||
      there.st_ino != st.st_ino || (may_be_hidden && has_name_of_deleted(path)))
    return formatted("{}{}{} cannot be saved yet: no restart could open it by its name",
                     S_ISDIR(st.st_mode) ? "the deleted directory " : "the deleted file ", path, number);
  if (S_ISDIR(st.st_mode) && (fcntl(fd, F_GETFL) & O_PATH) == 0 && access(path.c_str(), R_OK) != 0)
    return formatted("the program's directory {}{} cannot be opened again by its name: {}", path, number,
                     errno_text(errno));
  return "";
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

// Whether another rank of this job has the description of this descriptor open, too: all ranks move one
// offset of a file that they were started with, as `5< FILE` before a launcher gives it. Where kcmp(2) is
// forbidden: whether it has the file open by the same number, at the same offset.
bool is_shared_by_ranks(int fd, const struct stat& st) {
  for (const pid_t rank : process::other_ranks())
    for (const int its : numbers_in(formatted("/proc/{}/fd", rank)))
      if (process::is_file(formatted("/proc/{}/fd/{}", rank, its), st) && is_one_description(fd, rank, its))
        return true;
  return false;
}

// "" or a refusal: ranks share the place in a file that their launcher gave them.
std::string shared_place(const OpenFile& f, const struct stat& st) {
  const bool has_place = (S_ISREG(st.st_mode) || S_ISDIR(st.st_mode)) && (f.flags & O_PATH) == 0 &&
                         (f.flags & (O_ACCMODE | O_APPEND)) != (O_WRONLY | O_APPEND);
  if (f.same_as >= 0 || !has_place || !file_was_given(st) || !is_shared_by_ranks(f.fd, st)) return "";
  return formatted(
      "{} (descriptor {}) was open when the ranks were started, and the place in it that they share "
      "cannot be saved yet; let each rank open it, or start them with {}>&-",
      f.path, f.fd, f.fd);
}

// "" or a refusal because of what the program did that no descriptor shows.
std::string unseen_ways(bool libraries) {
  static const std::pair<uint32_t, std::string> kWays[] = {
      {seam::kUnseenTooHigh,
       formatted("the program has used a descriptor above {}, which cannot be saved; no checkpoint of this "
                 "process is possible any more",
                 seam::kMaxDescriptors - 1)},
      {seam::kUnseenSharedTable,
       "a child made with CLONE_FILES has shared the program's descriptors, and what it opened or closed is "
       "not known; no checkpoint of this process is possible any more"},
      {seam::kUnseenOwnTable,
       "a thread has taken a table of descriptors of its own (unshare, clone), which cannot be saved; no "
       "checkpoint of this process is possible any more"},
      {seam::kUnseenNotification,
       "the program has asked to be told of changes in a directory (fcntl F_NOTIFY), which cannot be saved; "
       "no checkpoint of this process is possible any more"},
      {seam::kUnseenLandlock,
       "the program has restricted itself by Landlock (landlock_restrict_self), which cannot be saved yet"},
      {seam::kUnseenIoUring,
       "the program has used io_uring, whose descriptors cannot be told from the MPI's or the GPU's; no "
       "checkpoint of this process is possible any more"}};
  for (const auto& [way, line] : kWays)
    if ((seam::state()->unseen & way) != 0 && (libraries || way != seam::kUnseenIoUring)) return line;
  return "";
}

// The hard limit of a restart, unless its environment sets a lower one. The program may have lowered its own.
const rlim_t hard_limit_at_start = [] {
  rlimit limit{};
  return getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_max : RLIM_INFINITY;
}();

}  // namespace

std::string interrupted_by_a_stop() {
  const auto* state = seam::state();
  for (int fd = 0; fd < static_cast<int>(seam::kMaxDescriptors); ++fd) {
    if (fd % 64 == 0 && state->files[fd / 64] == 0) fd += 63;
    if (!seam::owns_file(state, fd) || descriptor_was_given(fd)) continue;
    if (fd < static_cast<int>(seam::kStreamFiles) && state->streams[fd] != 0) continue;
    // /proc/self shows the main thread's table, the program's; the agent's thread has its own.
    const std::string link = link_text(formatted("/proc/self/fd/{}", fd));
    struct stat st {};
    if (link.starts_with("socket:"))
      st.st_mode = S_IFSOCK;
    else if (link != "anon_inode:[io_uring]")
      continue;
    return why_not(fd, st, link);
  }
  return "";
}

Result<std::vector<OpenFile>> list_open_files(bool libraries) {
  if (std::string line = unseen_ways(libraries); !line.empty()) return Error{line};
  if (std::string line = unknown_descriptor(libraries); !line.empty()) return Error{line};
  std::vector<OpenFile> files;
  // Only descriptors of the same file can share a description.
  std::map<std::pair<dev_t, ino_t>, std::vector<int>> by_inode;
  auto* state = seam::state();
  for (const int fd : open_descriptors()) {
    if (!seam::owns_file(state, fd)) continue;
    struct stat st {};
    if (fstat(fd, &st) != 0) continue;
    const std::string number = formatted(" (descriptor {})", fd);
    OpenFile f;
    f.fd = fd;
    f.flags = fcntl(fd, F_GETFL);
    f.descriptor_flags = fcntl(fd, F_GETFD);
    const int s = fd < static_cast<int>(seam::kStreamFiles) ? state->streams[fd] - 1 : -1;
    const StandardStream stream = s >= 0 ? stream_at_start(s) : StandardStream();
    if (s > 0 || (s == 0 && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode) && !S_ISBLK(st.st_mode)))
      f.standard = s;
    if (f.standard == 0 && (S_ISFIFO(st.st_mode) || S_ISSOCK(st.st_mode)) && state->input_used != 0) {
      if (!is_at_its_end(fd, st))
        return Error{
            "the standard input is {} of which the program has read, and what was read cannot be had again; "
            "give it a file instead (< FILE)",
            kind_of(st, "")};
      f.ended = true;
    }
    const std::string link = descriptor_link(fd);
    if (!stream.locked && (has_file_lock(fd) || may_have_fuse_lock(fd, st)))
      return Error{"a file lock or lease on {}{} cannot be saved yet", link, number};
    if (!stream.owned && has_signal_owner(fd))
      return Error{"SIGIO or SIGURG for {}{} (fcntl F_SETOWN or F_SETSIG) cannot be saved yet", link, number};
    if (f.standard < 0) {
      f.same_as = find_description(by_inode[{st.st_dev, st.st_ino}], fd);
      f.path = link;
      if (std::string line = why_not(fd, st, link); !line.empty()) return Error{line};
      if (std::string line = shared_place(f, st); !line.empty()) return Error{line};
      if (!S_ISCHR(st.st_mode)) f.offset = std::max<int64_t>(0, lseek(fd, 0, SEEK_CUR));
      if (S_ISREG(st.st_mode) || S_ISDIR(st.st_mode)) {
        const Status known = identify_file(fd, "").move_to(f.identity);
        if (!known) return Error{"{}{}: {}", link, number, known.error().message};
        if (S_ISREG(st.st_mode) && (f.flags & O_ACCMODE) != O_RDONLY) f.size = st.st_size;
      }
    }
    files.push_back(std::move(f));
  }
  // A restart needs descriptors of its own above the program's.
  if (!files.empty() && static_cast<rlim_t>(files.back().fd) + kOwnDescriptors >= hard_limit_at_start)
    return Error{
        "the program's descriptor {} leaves no room above it for a restart below the hard limit (ulimit -Hn "
        "{}); use lower numbers or raise that",
        files.back().fd, hard_limit_at_start};
  return files;
}

}  // namespace cropdl::files
