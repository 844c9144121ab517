#include "restart/files/file_identity.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <cerrno>

#include "base/file.h"
#include "base/words.h"

namespace cropdl::files {

namespace {

int64_t nanoseconds(const statx_timestamp& t) { return t.tv_sec * 1'000'000'000 + t.tv_nsec; }

}  // namespace

Result<FileIdentity> identify_file(int fd, const std::string& path) {
  struct statx x {};
  const int from = fd >= 0 ? fd : AT_FDCWD;
  const char* const name = fd >= 0 ? "" : path.c_str();
  const int empty = *name == 0 ? AT_EMPTY_PATH : 0;
  if (statx(from, name, empty, STATX_BASIC_STATS | STATX_BTIME, &x) != 0) return Error{errno_text(errno)};
  FileIdentity id;
  id.device = makedev(x.stx_dev_major, x.stx_dev_minor);
  id.inode = x.stx_ino;
  if ((x.stx_mask & STATX_BTIME) != 0) id.born = nanoseconds(x.stx_btime);
  id.modified = nanoseconds(x.stx_mtime);
  id.size = static_cast<int64_t>(x.stx_size);
  id.mode = x.stx_mode;
  // struct file_handle: a count of bytes, a type, the bytes.
  alignas(file_handle) unsigned char handle[sizeof(file_handle) + MAX_HANDLE_SZ] = {};
  auto* head = reinterpret_cast<file_handle*>(handle);
  head->handle_bytes = MAX_HANDLE_SZ;
  int mount = 0;
  if (name_to_handle_at(from, name, head, &mount, empty != 0 ? AT_EMPTY_PATH : AT_SYMLINK_FOLLOW) == 0)
    id.handle = hex_digits(handle + sizeof(file_handle), head->handle_bytes);
  return id;
}

bool is_same_file(const FileIdentity& saved, const FileIdentity& now) {
  if (saved.inode != now.inode) return false;
  if (saved.born >= 0 && now.born >= 0) return saved.born == now.born;
  return !saved.handle.empty() && saved.handle == now.handle;  // with neither, nothing is proven
}

bool is_another_file(const FileIdentity& saved, const FileIdentity& now) {
  if (saved.inode != now.inode) return true;
  if (saved.born >= 0 && now.born >= 0) return saved.born != now.born;
  return !saved.handle.empty() && !now.handle.empty() && saved.handle != now.handle;
}

bool looks_the_same(const FileIdentity& saved, const FileIdentity& now) {
  return saved.size == now.size && saved.modified == now.modified;
}

bool has_name_of_deleted(const std::string& path) {
  const std::string name = file_name_of(path);
  // Followed by a number: 24 digits (Linux), 16 (libfuse).
  for (const std::string_view begin : {".nfs", ".fuse_hidden"})
    if (name.starts_with(begin) && name.size() >= begin.size() + 16 &&
        name.find_first_not_of("0123456789abcdef", begin.size()) == std::string::npos)
      return true;
  return false;
}

bool is_a_services_table(const std::string& path) {
  for (const char* folder : {"/var/lib/sss/mc/", "/run/nscd/", "/var/run/nscd/", "/var/cache/nscd/",
                             "/var/db/nscd/", "/var/lib/nscd/"})
    if (path.starts_with(folder)) return true;
  return false;
}

}  // namespace cropdl::files
