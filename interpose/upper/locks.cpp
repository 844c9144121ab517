// Notes the files on FUSE that the program asks to lock (restart/files/open_files.cpp). UH, any thread.
#include <asm/stat.h>
#include <asm/statfs.h>
#include <asm/unistd.h>
#include <linux/magic.h>

#include "interpose/upper/core.h"
#include "interpose/upper/trapped.h"

namespace cropdl::upper {
namespace {

struct Identity {
  uint64_t device, inode;
};

CROPDL_OWN_FRAME long identify(long fd, Identity* file) {
  struct stat st;
  const long result = raw(__NR_fstat, fd, as_word(&st));
  if (!failed(result)) *file = {st.st_dev, st.st_ino};
  return result;
}

// The listed files that the program has open, one bit each. All of them, if a file cannot be asked.
uint64_t open_ones(const seam::FuseLocks& known) {
  static_assert(seam::FuseLocks::kMax == 64);
  const auto* s = seam::state();
  uint64_t open = 0;
  for (unsigned word = 0; word < seam::kMaxDescriptors / 64; ++word)
    for (uint64_t bits = __atomic_load_n(&s->files[word], __ATOMIC_RELAXED); bits != 0; bits &= bits - 1) {
      Identity file{};
      const long result = identify(word * 64 + static_cast<unsigned>(__builtin_ctzll(bits)), &file);
      if (result == kBadFile) continue;
      if (failed(result)) return ~0ull;
      for (uint32_t i = 0; i < known.kMax; ++i)
        if (known.device[i] == file.device && known.inode[i] == file.inode) open |= 1ull << i;
    }
  return open;
}

// In one piece: after a cut in between, the file has another device and inode.
CROPDL_OWN_FRAME void note(long fd) {
  auto& known = seam::state()->fuse_locks;
  const NotesHeld held;
  Identity file{};
  if (known.entries > known.kMax || failed(identify(fd, &file))) return;
  for (uint32_t i = 0; i < known.entries; ++i)
    if (known.device[i] == file.device && known.inode[i] == file.inode) return;
  uint32_t mine = known.entries;
  if (mine == known.kMax) {  // the place of a closed file, whose locks are gone
    const uint64_t open = open_ones(known);
    mine = ~open != 0 ? static_cast<uint32_t>(__builtin_ctzll(~open)) : known.kMax;
  }
  if (mine == known.entries) ++known.entries;
  if (mine == known.kMax) return;
  known.device[mine] = file.device;
  known.inode[mine] = file.inode;
}

CROPDL_OWN_FRAME bool is_on_fuse(long fd) {
  struct statfs fs;
  return failed(raw(__NR_fstatfs, fd, as_word(&fs))) || fs.f_type == FUSE_SUPER_MAGIC;
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
