// Notes the files on FUSE file systems on which the program asks for locks: a cut names them
// (restart/files/open_files.cpp). UH, any thread.
#include <asm/stat.h>
#include <asm/statfs.h>
#include <asm/unistd.h>
#include <linux/magic.h>

#include "interpose/upper/core.h"
#include "interpose/upper/trapped.h"

namespace cropdl::upper {
namespace {

// In one piece: after a cut in between, the file has another device and inode.
CROPDL_OWN_FRAME void note(long fd) {
  auto& known = seam::state()->fuse_locks;
  const Undisturbed undisturbed;
  struct stat st;
  if (failed(raw(__NR_fstat, fd, reinterpret_cast<long>(&st)))) return;
  const uint32_t entries = __atomic_load_n(&known.entries, __ATOMIC_ACQUIRE);
  if (entries > known.kMax) return;  // the count must not begin anew
  for (uint32_t i = 0; i < entries; ++i)
    if (known.device[i] == st.st_dev && known.inode[i] == st.st_ino) return;
  const uint32_t mine = __atomic_fetch_add(&known.entries, 1, __ATOMIC_ACQ_REL);
  if (mine >= known.kMax) return;
  known.device[mine] = st.st_dev;
  known.inode[mine] = st.st_ino;
}

CROPDL_OWN_FRAME bool is_on_fuse(long fd) {
  struct statfs fs;
  return failed(raw(__NR_fstatfs, fd, reinterpret_cast<long>(&fs))) || fs.f_type == FUSE_SUPER_MAGIC;
}

}  // namespace

bool asks_for_lock(long nr, long operation) {
  static constexpr CallSet kLocks(kLocksSinceLevel2);
  constexpr long kUnlock = 8;  // LOCK_UN
  return (nr == __NR_flock && (operation & kUnlock) == 0) ||
         (nr == __NR_fcntl && kLocks.has(static_cast<unsigned>(operation)));
}

// The note comes before the call, which may wait long and be left by longjmp: what was asked for counts as
// had, until the program has closed the file.
long lock_file(const SystemCall& c) {
  const auto fd = static_cast<int>(c.a[0]);
  if (!is_child() && is_on_fuse(fd)) note(fd);
  return pass_on(c);
}

}  // namespace cropdl::upper
