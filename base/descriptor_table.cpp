#include "base/descriptor_table.h"

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/file.h"

namespace cropdl {

bool leave_descriptor_table(const std::function<bool(int fd)>& stays) {
  if (::unshare(CLONE_FILES) != 0) return false;
  // Closes descriptors one by one: the kernel would walk the whole range, and the table is long. Uses the
  // bare system call, since for the rest of the process, and the thread sanitizer, the descriptors stay open.
  for (const int fd : open_descriptors())
    if (!stays(fd)) ::syscall(SYS_close, fd);
  return true;
}

}  // namespace cropdl
