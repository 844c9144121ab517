#include "restart/files/descriptors.h"

#include <fcntl.h>
#include <linux/kcmp.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <tuple>

#include "base/file.h"
#include "base/format.h"
#include "interpose/launch/launch.h"
#include "interpose/seam/state.h"

namespace cropdl::files {
namespace {

using Key = std::tuple<dev_t, ino_t, dev_t>;  // file system, inode, device that the file is
Key key_of(const struct stat& st) { return {st.st_dev, st.st_ino, st.st_rdev}; }

// For the process's life: each checkpoint compares with them.
std::map<int, Key> given_to_program;
std::map<int, Key> ours;  // set by remember_our_descriptors()
StandardStream streams[3];

// What libraries of the LH keep open, as observed with Open MPI, MPICH and CUDA: sockets, pipes, event
// descriptors, files of shared memory and of their session's directory, devices of networks and GPUs.
bool may_be_a_librarys(const struct stat& st, const std::string& link) {
  if (S_ISSOCK(st.st_mode) || S_ISFIFO(st.st_mode)) return true;
  for (const char* name : {"anon_inode:[eventfd]", "anon_inode:[eventpoll]", "anon_inode:[timerfd]",
                           "anon_inode:[signalfd]", "anon_inode:inotify", "anon_inode:[infinibandevent]"})
    if (link == name) return true;
  if (S_ISCHR(st.st_mode)) {
    constexpr unsigned kTerminal = 4, kTerminals = 5, kFirstPty = 136, kLastPty = 143;  // devices.txt
    const unsigned major = major(st.st_rdev);
    return major != kTerminal && major != kTerminals && (major < kFirstPty || major > kLastPty);
  }
  if (S_ISREG(st.st_mode) || S_ISDIR(st.st_mode))
    return link.starts_with("/dev/shm/") || link.starts_with("/sys/") ||
           link.find("/ompi.") != std::string::npos || link.find("/pmix") != std::string::npos ||
           link.find("/prte.") != std::string::npos || link.find("/openmpi-sessions") != std::string::npos ||
           link.starts_with("/memfd:ucx") || link.starts_with("/memfd:software-gpu") ||
           link.starts_with("/proc/driver/nvidia");
  return false;
}

// Whether an environment variable with _FD in its name has this number: PMI_FD, HYDI_CONTROL_FD and others.
bool environment_names(int fd) {
  const std::string number = std::to_string(fd);
  for (char** one = environ; *one != nullptr; ++one) {
    const std::string text = *one;
    const size_t equals = text.find('=');
    if (equals != std::string::npos && text.find("_FD") < equals && text.substr(equals + 1) == number)
      return true;
  }
  return false;
}

// The files that the launcher itself has open. Empty: unknown.
std::vector<Key> launchers_files() {
  std::vector<Key> keys;
  const pid_t launcher = launching::launchers_process();
  if (launcher == 0) return keys;
  const std::string folder = formatted("/proc/{}/fd", launcher);
  for (const int fd : numbers_in(folder))
    if (struct stat st{}; stat(formatted("{}/{}", folder, fd).c_str(), &st) == 0) keys.push_back(key_of(st));
  return keys;
}

// Whether the launcher gave this pipe or socket, and not a process in between (a script: `5< <(command)`).
// Hydra leaves copies of its ranks' standard streams open (HYDU_create_process in its launch.c). Both ends of
// a pipe are one inode, and the launcher has the other end, unless all of a rank's input was passed on.
bool is_launchers(int fd, const struct stat& st) {
  static const std::vector<Key> files = launchers_files();
  if (files.empty() || environment_names(fd) || is_pipe_at_its_end(fd)) return true;
  for (int s = 0; s < 3; ++s)
    if (struct stat of{}; fstat(s, &of) == 0 && key_of(of) == key_of(st)) return true;
  return std::ranges::find(files, key_of(st)) != files.end();
}

// The signal instead of SIGIO is the description's (man 2 fcntl, F_SETSIG), and idle without O_ASYNC.
bool have_common_mark(int a, int b) {
  const int before = fcntl(a, F_GETSIG);
  if (before < 0) return false;  // O_PATH: there is no offset to share
  const int mark = before == 50 ? 51 : 50;
  if (fcntl(a, F_SETSIG, mark) != 0) return false;
  const bool same = fcntl(b, F_GETSIG) == mark;
  fcntl(a, F_SETSIG, before);
  return same;
}

}  // namespace

std::string descriptor_link(int fd) { return link_text(descriptor_path(fd)); }

bool is_pipe_at_its_end(int fd) {
  pollfd p{fd, POLLIN, 0};
  int left = 0;
  return poll(&p, 1, 0) == 1 && (p.revents & POLLHUP) != 0 && ioctl(fd, FIONREAD, &left) == 0 && left == 0;
}

int choose_first_descriptor() {
  // As high as the limit and a small table in the kernel allow. Half of the numbers stay the program's.
  constexpr rlim_t kUsual = 1024;
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) limit.rlim_cur = kUsual;
  const rlim_t end = std::min<rlim_t>(limit.rlim_cur, kUsualTable);
  return static_cast<int>(end - std::min<rlim_t>(kOwnDescriptors, end / 2));
}

InheritedDescriptors inherited_descriptors(const std::vector<int>& given, bool under_launcher) {
  InheritedDescriptors found;
  for (const int fd : given) {
    struct stat st {};
    const int flags = fcntl(fd, F_GETFD);
    // Close-on-exec, but open now: a library of the LH opened it before main().
    if (flags < 0 || (flags & FD_CLOEXEC) != 0 || fstat(fd, &st) != 0) continue;
    const bool between = under_launcher && fd > 2 && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode) &&
                         !S_ISCHR(st.st_mode) && is_launchers(fd, st);
    (between ? found.launchers : found.programs).push_back(fd);
    if (!between) given_to_program[fd] = key_of(st);
  }
  return found;
}

bool descriptor_was_given(int fd) { return given_to_program.count(fd) != 0; }

bool file_was_given(const struct stat& st) {
  return std::ranges::any_of(given_to_program,
                             [key = key_of(st)](auto& given) { return given.second == key; });
}

std::string advice_on_given(int fd) {
  struct stat st {};
  const auto it = given_to_program.find(fd);
  if (it == given_to_program.end() || fstat(fd, &st) != 0 || it->second != key_of(st)) return "";
  return formatted("; the program was started with it, and if it has no use for it, start it with {}>&-", fd);
}

void remember_our_descriptors() {
  ours.clear();
  for (const int fd : open_descriptors()) {
    struct stat st {};
    if (!seam::owns_file(seam::state(), fd) && fstat(fd, &st) == 0) ours[fd] = key_of(st);
  }
}

std::string unknown_descriptor(bool libraries) {
  const auto find = [&]() -> std::string {
    for (const int fd : open_descriptors()) {
      struct stat st {};
      if (seam::owns_file(seam::state(), fd) || is_own_descriptor(fd) || fstat(fd, &st) != 0) continue;
      if (const auto it = ours.find(fd); it != ours.end() && it->second == key_of(st)) continue;
      const std::string link = descriptor_link(fd);
      if (link.empty() || (libraries && may_be_a_librarys(st, link))) continue;
      return formatted(
          "descriptor {} ({}) was not seen when it was made (by code outside the window, a child, or the "
          "kernel): whose it is cannot be known; close it and ask again",
          fd, link);
    }
    return "";
  };
  // If the agent's threads share this table, they hold descriptors for a moment, which a busy machine makes
  // long, or while they remove a version: try again.
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  for (int again = 0;; ++again) {
    std::string line = find();
    if (line.empty() || (again >= 5 && (!DescriptorInHand::any() || std::chrono::steady_clock::now() > end)))
      return line;
    usleep(2000);
  }
}

int find_description(std::vector<int>& known, int fd) {
  constexpr long kSame = 0, kLess = 1, kGreater = 2;  // man 2 kcmp
  const pid_t me = getpid();
  auto at = known.begin(), end = known.end();
  while (at != end) {
    const auto middle = at + (end - at) / 2;
    const long order = syscall(SYS_kcmp, me, me, KCMP_FILE, *middle, fd);
    if (order == kSame) return *middle;
    if (order != kLess && order != kGreater) {
      for (const int one : known)
        if (have_common_mark(one, fd)) return one;
      at = known.end();
      break;
    }
    (order == kLess ? at : end) = order == kLess ? middle + 1 : middle;
  }
  known.insert(at, fd);
  return -1;
}

const StandardStream& stream_at_start(int s) { return streams[s]; }

void remember_standard_streams() {
  for (int s = 0; s < 3; ++s) {
    StandardStream& stream = streams[s];
    stream.open = fstat(s, &stream.is) == 0;
    if (!stream.open) continue;
    stream.locked = has_file_lock(s);
    stream.owned = has_signal_owner(s);
  }
}

bool input_is_a_stream() {
  return streams[0].open && (S_ISFIFO(streams[0].is.st_mode) || S_ISSOCK(streams[0].is.st_mode));
}

bool has_file_lock(int fd) {
  return kernel_text(formatted("/proc/thread-self/fdinfo/{}", fd)).find("\nlock:") != std::string::npos;
}

bool has_signal_owner(int fd) {
  f_owner_ex owner{};
  return (fcntl(fd, F_GETOWN_EX, &owner) == 0 && owner.pid != 0) || fcntl(fd, F_GETSIG) > 0;
}

}  // namespace cropdl::files
