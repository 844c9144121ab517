#include "interpose/lower/open_files.h"

#include <fcntl.h>
#include <linux/kcmp.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "interpose/seam/state.h"
#include "restart/file.h"

namespace cropdl::lower {
namespace {

using restart::kFirstHighDescriptor;

struct Identity {
  bool open = false;
  dev_t device = 0;
  ino_t inode = 0;
  mode_t type = 0;
};
Identity standard[3];

Identity identify(int fd) {
  struct stat st {};
  if (fstat(fd, &st) != 0) return {};
  return {true, st.st_dev, st.st_ino, st.st_mode & S_IFMT};
}

std::string link_of(int fd) {
  char path[4096];
  const ssize_t n = readlink(("/proc/self/fd/" + std::to_string(fd)).c_str(), path, sizeof path);
  return n > 0 ? std::string(path, static_cast<size_t>(n)) : std::string();
}

bool same_description(int a, int b) {
  const pid_t me = getpid();
  return syscall(SYS_kcmp, me, me, KCMP_FILE, a, b) == 0;
}

bool holds_lock(int fd) {
  char text[8192];
  const int info = open(("/proc/self/fdinfo/" + std::to_string(fd)).c_str(), O_RDONLY | O_CLOEXEC);
  if (info < 0) return false;
  const ssize_t n = read(info, text, sizeof text - 1);
  close(info);
  if (n <= 0) return false;
  text[n] = 0;
  return strstr(text, "\nlock:") != nullptr;
}

// "pipe", "socket", ... as the refusal names it.
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

Error refuse(const OpenFile& f, const std::string& why) {
  return {"the program's file " + f.path + " (descriptor " + std::to_string(f.fd) + "): " + why};
}

}  // namespace

static_assert(kFirstHighDescriptor == seam::kFirstLowerFile);  // the core steers the program around them

void remember_standard_streams() {
  for (int fd = 0; fd < 3; ++fd) standard[fd] = identify(fd);
}

std::vector<int> inherited_files() {
  std::vector<int> found;
  for (int fd = 0; fd < kFirstHighDescriptor; ++fd) {
    const Identity id = identify(fd);
    if (id.open && (fd < 3 || id.type == S_IFREG || id.type == S_IFDIR || id.type == S_IFCHR))
      found.push_back(fd);
  }
  return found;
}

Result<std::vector<OpenFile>> list_open_files() {
  std::vector<OpenFile> files;
  const auto* state = seam::state();
  for (int fd = 0; fd < static_cast<int>(seam::kMaxFiles); ++fd) {
    if (!seam::owns_file(state, fd)) continue;
    struct stat st {};
    if (fstat(fd, &st) != 0) continue;  // closed behind the core's back
    OpenFile f;
    f.fd = fd;
    f.flags = fcntl(fd, F_GETFL);
    f.descriptor_flags = fcntl(fd, F_GETFD);
    for (const OpenFile& other : files)
      if (f.same_as < 0 && same_description(other.fd, fd)) f.same_as = other.fd;
    const Identity id = identify(fd);
    const bool plain = S_ISREG(st.st_mode) || S_ISDIR(st.st_mode);
    for (int s = 0; s < 3 && !plain; ++s)
      if (standard[s].open && standard[s].device == id.device && standard[s].inode == id.inode &&
          (f.standard < 0 || s == fd))
        f.standard = s;
    // Standard streams that the launcher gave as files belong to the launcher as well.
    for (int s = 0; s < 3 && plain; ++s)
      if (standard[s].open && standard[s].device == id.device && standard[s].inode == id.inode && s == fd)
        f.standard = s;
    if (f.standard < 0) {
      f.path = link_of(fd);
      const std::string number = "descriptor " + std::to_string(fd);
      if (!plain && !S_ISCHR(st.st_mode))
        return Error{kind_of(st, f.path) + " (" + number + ") cannot be saved yet"};
      if (S_ISREG(st.st_mode) && (st.st_nlink == 0 || f.path.empty() || f.path[0] != '/'))
        return Error{"the deleted file " + f.path + " (" + number + ") cannot be saved yet"};
      if (S_ISCHR(st.st_mode) && f.path.rfind("/dev/", 0) != 0)
        return Error{"the device " + f.path + " (" + number + ") cannot be saved yet"};
      if (holds_lock(fd)) return Error{"a file lock on " + f.path + " cannot be saved yet"};
      if (plain) f.offset = lseek(fd, 0, SEEK_CUR);
      if (S_ISREG(st.st_mode) && (f.flags & O_ACCMODE) != O_RDONLY) f.size = st.st_size;
    }
    files.push_back(std::move(f));
  }
  return files;
}

Status check_files(const std::vector<OpenFile>& files) {
  for (const OpenFile& f : files) {
    if (f.standard >= 0 || f.same_as >= 0) continue;
    struct stat st {};
    if (stat(f.path.c_str(), &st) != 0) return refuse(f, errno_text(errno) + "; put it back and try again");
    if (f.size >= 0 && st.st_size < f.size)
      return refuse(f, "has " + std::to_string(st.st_size) + " bytes, but had " + std::to_string(f.size) +
                           " when the checkpoint was taken; put it back and try again");
  }
  return {};
}

Status reopen_files(const std::vector<OpenFile>& files) {
  // Standard streams move out of the way first: the program may have had its own files at 0 to 2.
  int streams[3];
  for (int s = 0; s < 3; ++s) streams[s] = fcntl(s, F_DUPFD_CLOEXEC, kFirstHighDescriptor);
  for (const OpenFile& f : files) {
    int fd = -1;
    if (f.same_as >= 0) {
      fd = fcntl(f.same_as, F_DUPFD, f.fd);
    } else if (f.standard >= 0) {
      if (streams[f.standard] < 0) continue;  // the new launcher gave none
      fd = fcntl(streams[f.standard], F_DUPFD, kFirstHighDescriptor);
    } else {
      constexpr int kOnlyAtOpen = O_CREAT | O_EXCL | O_TRUNC | O_NOCTTY;
      fd = open(f.path.c_str(), (f.flags & ~kOnlyAtOpen) | O_CLOEXEC);
      if (fd < 0) return refuse(f, "cannot open it again: " + errno_text(errno));
      if (f.size >= 0 && ftruncate(fd, f.size) != 0)
        return refuse(f, "cannot cut it back: " + errno_text(errno));
      if (f.offset > 0 && lseek(fd, f.offset, SEEK_SET) != f.offset)
        return refuse(f, "cannot seek in it: " + errno_text(errno));
    }
    if (fd < 0) return refuse(f, errno_text(errno));
    if (fd != f.fd) {
      if (dup2(fd, f.fd) < 0) return refuse(f, errno_text(errno));
      close(fd);
    }
    fcntl(f.fd, F_SETFD, f.descriptor_flags);
  }
  for (int s = 0; s < 3; ++s) {
    bool used = false;
    for (const OpenFile& f : files) used = used || f.fd == s;
    if (!used) close(s);
    if (streams[s] >= 0) close(streams[s]);
  }
  return {};
}

}  // namespace cropdl::lower
