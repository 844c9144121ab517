#include "restart/memory/mapped_files.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <span>
#include <tuple>

#include "base/file.h"
#include "base/format.h"
#include "base/page.h"
#include "restart/content.h"

namespace cropdl::host_memory {
namespace {

constexpr uint64_t kAtOnce = 256 << 10;
constexpr uint64_t kLeftInFileFrom = 16 << 20;  // smallest mapping, in bytes

bool is_device(const Mapping& m, struct stat* st) {
  return m.inode != 0 && stat(m.path.c_str(), st) == 0 && st->st_ino == m.inode &&
         (S_ISCHR(st->st_mode) || S_ISBLK(st->st_mode));
}

// Ascending runs, which may be millions, asked for ascending pages.
struct InOrder {
  std::span<const PageRun> left;
  bool holds(uint64_t page) {
    while (!left.empty() && left.front().end <= page) left = left.subspan(1);
    return !left.empty() && left.front().begin <= page;
  }
};

// Finds the pages up to `end` that differ from the file, or are copies; with `all`, all but guard pages.
// False: the file cannot be read, or is too short.
bool find_changed(int fd, const RegionState& s, uint64_t end, bool all, std::vector<uint64_t>* changed) {
  InOrder guards{s.guards}, copies{s.copies};
  std::vector<char> text(kAtOnce);
  for (uint64_t a = s.begin; a < end;) {
    const uint64_t bytes = std::min(end - a, kAtOnce);
    iovec left{text.data(), bytes};
    const int failure = read_all(fd, {&left, 1}, s.file->offset + (a - s.begin));
    if (failure != 0 && failure != kEndOfFile) return false;
    if (left.iov_len >= kPage) return false;  // even the last page's first byte is missing
    memset(left.iov_base, 0, left.iov_len);   // as the kernel fills the last page
    for (uint64_t p = 0; p < bytes; p += kPage)
      if (!guards.holds(a + p) &&
          (all || copies.holds(a + p) || memcmp(pointer(a + p), text.data() + p, kPage) != 0))
        changed->push_back(a + p);
    a += bytes;
  }
  return true;
}

}  // namespace

bool is_anonymous(const Mapping& m) {
  struct stat st {};
  return m.inode == 0 ||
         (!m.shared && is_device(m, &st) && st.st_rdev == makedev(1, 5));  // drivers/char/mem.c, mmap_zero
}

std::string file_refusal(const Mapping& m) {
  struct stat st {};
  const std::string name = m.path.empty() ? "anonymous memory" : m.path;
  if (m.shared) {
    // Accepts only what can never become writable: a descriptor for reading (mm/mmap.c clears VM_MAYWRITE).
    const bool regular =
        m.inode != 0 && stat(m.path.c_str(), &st) == 0 && S_ISREG(st.st_mode) && st.st_ino == m.inode;
    if (m.has("mw") || (m.prot & PROT_WRITE) != 0 || !regular)
      return formatted("the shared mapping of {} cannot be saved yet", name);
  } else if (is_device(m, &st) && !is_anonymous(m)) {
    return formatted("the mapping of the device {} cannot be saved", name);
  }
  return "";
}

MappedFile examine_file(const Mapping& m) {
  MappedFile file{m.path, m.shared, (m.prot & PROT_EXEC) != 0, false, m.offset, {}};
  if (auto now = files::identify_file(-1, m.path); now && now->inode == m.inode && S_ISREG(now->mode))
    file.identity = std::move(*now);
  return file;
}

bool may_be_on_dax(const MappedFile& file) {
  struct statx x {};
  return statx(AT_FDCWD, file.path.c_str(), 0, STATX_BASIC_STATS, &x) != 0 ||
         (x.stx_attributes & STATX_ATTR_DAX) != 0;
}

bool may_be_left_in_file(const MappedFile& file, uint64_t bytes, int64_t began) {
  // File times (ns) have the resolution of a tick, on some file systems that of one or two seconds.
  constexpr int64_t kTick = 10'000'000, kSecond = 1'000'000'000;
  const int64_t tick = file.identity.modified % kSecond == 0 ? 2 * kSecond : kTick;
  struct statfs where {};
  if (files::has_name_of_deleted(file.path)) return false;
  if (file.identity.modified < 0 || file.identity.modified > began - tick) return false;
  return file.shared && !file.executable && file.identity.inode != 0 && bytes >= kLeftInFileFrom &&
         !files::is_a_services_table(file.path) && statfs(file.path.c_str(), &where) == 0 &&
         where.f_type != TMPFS_MAGIC && where.f_type != RAMFS_MAGIC;
}

bool make_durable(const MappedFile& file) {
  // fsync(2) reports a failed write only once, so a failure is remembered.
  static std::map<std::tuple<uint64_t, uint64_t, int64_t>, bool> known;
  const files::FileIdentity& then = file.identity;
  const std::tuple state(then.device, then.inode, then.modified);
  if (const auto it = known.find(state); it != known.end()) return it->second;
  const Descriptor fd = open_high(file.path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
  const auto now = files::identify_file(fd);
  if (!now || std::tuple(now->device, now->inode, now->modified) != state) return false;
  // Read-only file systems (squashfs) have no fsync and return EINVAL.
  return known[state] = fsync(fd.fd()) == 0 || errno == EINVAL || errno == EROFS;
}

Status check_left_in_file(const MappedFile& file, uint64_t bytes, bool as_it_is, int fd) {
  Status same = restart::check_data_set(file.path, fd, file.identity.size, file.identity.modified);
  if (same || !as_it_is) return same;
  const auto now = files::identify_file(fd, file.path);
  const uint64_t needed = std::min(static_cast<uint64_t>(file.identity.size), file.offset + bytes);
  return now && S_ISREG(now->mode) && static_cast<uint64_t>(now->size) >= needed ? Status() : same;
}

Status map_left_in_file(const RegionState& s, int prot, bool as_it_is) {
  const MappedFile& file = *s.file;
  const Descriptor fd = open_high(file.path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
  if (fd)
    if (Status same = check_left_in_file(file, s.end - s.begin, as_it_is, fd.fd()); !same) return same;
  if (fd && mmap(pointer(s.begin), s.end - s.begin, prot, MAP_SHARED | MAP_FIXED, fd.fd(),
                 static_cast<off_t>(file.offset)) != MAP_FAILED)
    return {};
  return Error{"{}, which the program had mapped, cannot be mapped again: {}", file.path, errno_text(errno)};
}

Result<bool> map_file_again(const RegionState& s, int prot) {
  const MappedFile& file = *s.file;
  const files::FileIdentity& then = file.identity;
  const uint64_t bytes = s.end - s.begin;
  if (then.inode == 0) return false;
  const Descriptor fd = open_high(file.path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
  const auto now = files::identify_file(fd);
  if (!now || !S_ISREG(now->mode)) return false;
  const bool itself = files::is_same_file(then, *now), looks_same = files::looks_the_same(then, *now);
  if (!itself && !looks_same) return false;

  // Pages up to the file's end at the cut were readable. Access beyond it raises SIGBUS until the file grows.
  const uint64_t pages = page_up(static_cast<uint64_t>(then.size));
  const uint64_t readable = pages > file.offset ? std::min(pages - file.offset, bytes) : 0;
  std::vector<uint64_t> changed;
  // All pages of a private mapping: this rank or another one may restore the file later, and until then no
  // page may depend on its contents.
  const bool complete = find_changed(fd.fd(), s, s.begin + readable, !file.shared && !looks_same, &changed);
  if (file.shared && complete && itself && files::is_a_services_table(file.path)) changed.clear();
  if (file.shared && (!complete || !changed.empty())) {
    if (!itself || files::is_a_services_table(file.path)) return false;
    return Error{file.path +
                 " was changed after the checkpoint, and the program shares its contents (MAP_SHARED)"};
  }
  if (!complete) return false;

  // Writable for a moment to put pages back, or if it was once: the kernel then counts it as committed.
  const bool write = !file.shared && (!changed.empty() || has_flag(s.flags, "ac"));
  void* aside =
      mmap(nullptr, bytes, write ? PROT_READ | PROT_WRITE : prot,
           file.shared ? MAP_SHARED : flags_for_mmap(s.flags), fd.fd(), static_cast<off_t>(file.offset));
  if (aside == MAP_FAILED) return false;
  for (const uint64_t page : changed)
    memcpy(static_cast<char*>(aside) + (page - s.begin), pointer(page), kPage);
  // By raw system call: communication libraries (UCX) replace mremap, and do not know its last argument.
  const bool moved = (!write || mprotect(aside, bytes, prot) == 0) &&
                     syscall(SYS_mremap, aside, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, s.begin) ==
                         static_cast<long>(s.begin);
  if (!moved) munmap(aside, bytes);
  return moved;
}

}  // namespace cropdl::host_memory
