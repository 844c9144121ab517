#include "base/descriptor_table.h"

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/file.h"

namespace cropdl {

bool leave_descriptor_table(const std::function<bool(int fd)>& stays) {
  if (::unshare(CLONE_FILES) != 0) return false;
  // One by one: the kernel walks a whole range, and the table is a long one. By the bare system call: to the
  // rest of the process, and to the thread sanitizer, they stay open.
  for (const int fd : open_descriptors())
    if (!stays(fd)) ::syscall(SYS_close, fd);
  return true;
}

}  // namespace cropdl
