#include "restart/files/closed_mode.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/format.h"
#include "base/say.h"

namespace cropdl::files {
namespace {

constexpr mode_t kModeBits = 07777, kOwner = S_IRUSR | S_IWUSR;
constexpr int kTries = 50;  // 1 ms apart: another rank may be opening the same file

// The owner's bits that an open with these flags needs.
mode_t needed(int flags) {
  const int access = flags & O_ACCMODE;
  return (access != O_WRONLY ? S_IRUSR : 0) | (access != O_RDONLY ? S_IWUSR : 0);
}

// A file whose mode alone may be what forbids its owner the access. Not with S_ISUID or S_ISGID, which
// chmod(2) may take away.
bool is_ours(const struct stat& st) {
  return S_ISREG(st.st_mode) && st.st_uid == geteuid() && (st.st_mode & (S_ISUID | S_ISGID)) == 0;
}

int open_once(const std::string& path, int flags) {
  int fd;
  do {
    fd = open(path.c_str(), flags | O_CLOEXEC);
  } while (fd < 0 && errno == EINTR);
  return fd;
}

// One try: adds the owner's bits, opens the file, removes the bits. *again: another rank is doing so.
int open_with_owners_bits(const std::string& path, int flags, bool* again) {
  const Descriptor place(open_once(path, O_PATH | (flags & O_NOFOLLOW)));
  struct stat st {};
  const bool seen = place && fstat(place.fd(), &st) == 0 && is_ours(st);
  errno = EACCES;
  if (!seen) return -1;
  *again = true;
  if ((st.st_mode & kOwner) == kOwner) return -1;
  // Through the descriptor: the name may lead to another file by now.
  const std::string file = formatted("/proc/thread-self/fd/{}", place.fd());
  if (chmod(file.c_str(), (st.st_mode & kModeBits) | kOwner) != 0) {
    *again = false;
    errno = EACCES;
    return -1;
  }
  const int opened = open_once(file, flags & ~O_NOFOLLOW);
  const int why = errno;
  if (chmod(file.c_str(), st.st_mode & kModeBits) != 0)
    say(formatted("{}: its mode was {:o} and cannot be set again: {}", path, st.st_mode & kModeBits,
                  errno_text(errno)));
  errno = why;
  return opened;
}

}  // namespace

int open_despite_mode(const std::string& path, int flags, uint32_t mode_then) {
  for (int tries = 0;; ++tries) {
    int fd = open_once(path, flags);
    if (fd >= 0 || errno != EACCES || (mode_then & needed(flags)) == needed(flags)) return fd;
    bool again = false;
    fd = open_with_owners_bits(path, flags, &again);
    if (fd >= 0 || errno != EACCES || !again || tries == kTries) return fd;
    usleep(1000);
  }
}

}  // namespace cropdl::files
