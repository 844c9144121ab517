#include "restart/files/directories.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/file.h"

namespace cropdl::files {
namespace {

// Directories of /proc and /sys are the kernel's: they differ on each boot.
bool is_comparable(const std::string& path, const FileIdentity& then) {
  return S_ISDIR(then.mode) && !path.starts_with("/proc/") && !path.starts_with("/sys/");
}

// Whether an offset means the same names however the directory was changed since: of file systems that NFS
// can export it must. On a tmpfs or an overlay it counts names.
bool keeps_offsets(int fd) {
  struct statfs fs {};
  if (fstatfs(fd, &fs) != 0) return false;
  constexpr unsigned kXfs = 0x58465342, kLustre = 0x0BD00BD0, kGpfs = 0x47504653;
  for (const unsigned known : {unsigned{EXT4_SUPER_MAGIC}, unsigned{BTRFS_SUPER_MAGIC},
                               unsigned{F2FS_SUPER_MAGIC}, unsigned{NFS_SUPER_MAGIC}, kXfs, kLustre, kGpfs})
    if (static_cast<unsigned>(fs.f_type) == known) return true;
  return false;
}

// Whether a read at the saved offset finds no more names.
bool is_at_end(int fd, int64_t offset) {
  alignas(8) char names[4096];
  return lseek(fd, offset, SEEK_SET) == offset && syscall(SYS_getdents64, fd, names, sizeof names) == 0;
}

bool has_lost_its_place(const OpenFile& f, const FileIdentity& now) {
  if (f.offset == 0 || now.modified == f.identity.modified) return false;
  const Descriptor list = open_high(f.path, O_RDONLY | O_DIRECTORY);
  return list && !keeps_offsets(list.fd()) && !is_at_end(list.fd(), f.offset);
}

FileVerdict another(const std::string& path, FilesPolicy policy) {
  if (policy != FilesPolicy::kFail) return {};
  return refused(
      "the program's directory {} is not that of the checkpoint but another one of that name, and "
      "--files=fail accepts no difference; put the former one back, or go on in this one without "
      "that option",
      path);
}

}  // namespace

std::optional<bool> is_mount_root(const std::string& path) {
  struct statx x {};
  if (statx(AT_FDCWD, path.c_str(), path.empty() ? AT_EMPTY_PATH : 0, STATX_TYPE, &x) != 0 ||
      (x.stx_attributes_mask & STATX_ATTR_MOUNT_ROOT) == 0)
    return std::nullopt;
  return (x.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0;
}

FileVerdict check_current_directory(const std::string& path, const FileIdentity& then,
                                    std::optional<bool> was_mount_root, FilesPolicy policy) {
  const auto now = identify_file(-1, path);
  // Without it the restart is refused when it goes there.
  if (!now || !is_comparable(path, then) || policy == FilesPolicy::kKeep || !is_another_file(then, *now))
    return {};
  // Another disk or container has another root: only a mount where none was hides the former directory.
  if (was_mount_root == false && is_mount_root(path) == true)
    return refused(
        "the program's directory {} is not that of the checkpoint: another file system is mounted "
        "there; unmount it and try again (or go on in this one: cropdl-restart --files=keep)",
        path);
  return another(path, policy);
}

FileVerdict check_open_directory(const OpenFile& f, const FileIdentity& now, FilesPolicy policy) {
  if (!is_comparable(f.path, f.identity) || policy == FilesPolicy::kKeep) return {};
  if (is_another_file(f.identity, now)) {
    if (f.offset == 0) return another(f.path, policy);
    return refused(
        "the program's directory {} (descriptor {}) is not that of the checkpoint but another one "
        "of that name, and the program had read a part of its names; put the former one back and "
        "try again (or read on in this one: cropdl-restart --files=keep)",
        f.path, f.fd);
  }
  if (!has_lost_its_place(f, now)) return {};
  return refused(
      "the program had read a part of the names in its directory {} (descriptor {}), which has "
      "changed since, and on its file system the place cannot be found again; put it back and try "
      "again (or read on in it as it is: cropdl-restart --files=keep)",
      f.path, f.fd);
}

std::string directory_left_alone(int fd, const std::string& path, const FileIdentity& then) {
  if (!is_comparable(path, then)) return "";
  const auto now = identify_file(fd, path);
  if (now && !is_another_file(then, *now)) return "";
  return path + " is another directory than at the checkpoint and is used as it is";
}

}  // namespace cropdl::files
