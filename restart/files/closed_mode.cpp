#include "restart/files/closed_mode.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/format.h"

namespace cropdl::files {
namespace {

constexpr mode_t kModeBits = 07777, kOwner = S_IRUSR | S_IWUSR;
constexpr int kTries = 50;  // 1 ms apart: another rank may be opening the same file

// One try: adds the owner's bits, opens the file, removes the bits. -1 with EACCES: the mode is not the
// cause.
int open_with_owners_bits(const std::string& path, int flags) {
  const Descriptor place(open(path.c_str(), O_PATH | O_CLOEXEC | (flags & O_NOFOLLOW)));
  struct stat st {};
  if (!place || fstat(place.fd(), &st) != 0) return -1;
  errno = EACCES;
  if (!S_ISREG(st.st_mode) || st.st_uid != geteuid() || (st.st_mode & kOwner) == kOwner) return -1;
  // Through the descriptor: the name may lead to another file by now.
  const std::string file = formatted("/proc/thread-self/fd/{}", place.fd());
  if (chmod(file.c_str(), (st.st_mode & kModeBits) | kOwner) != 0) return -1;
  const int opened = open(file.c_str(), (flags & ~O_NOFOLLOW) | O_CLOEXEC);
  const int why = errno;
  const bool restored = chmod(file.c_str(), st.st_mode & kModeBits) == 0;
  if (restored || opened < 0) {
    errno = why;
    return opened;
  }
  close(opened);
  errno = EPERM;
  return -1;
}

}  // namespace

int open_despite_mode(const std::string& path, int flags) {
  for (int tries = 0;; ++tries) {
    int fd = open(path.c_str(), flags | O_CLOEXEC);
    if (fd >= 0 || errno != EACCES) return fd;
    fd = open_with_owners_bits(path, flags);
    if (fd >= 0 || errno != EACCES || tries == kTries) return fd;
    usleep(1000);
  }
}

}  // namespace cropdl::files
