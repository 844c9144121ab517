#include "restart/files/file_identity.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/format.h"
#include "base/words.h"

namespace cropdl::files {
namespace {

int64_t nanoseconds(const statx_timestamp& t) { return t.tv_sec * 1'000'000'000 + t.tv_nsec; }

constexpr size_t kMostBytes = 64 << 10;  // of all attributes; also the kernel's limit of one
constexpr char kAcl[] = "system.posix_acl_access";

// Whether the file system has none of that name, or none at all.
bool is_missing(int failure) { return failure == ENODATA || failure == EOPNOTSUPP; }

// Reads the attribute; false with errno.
bool read_attribute(int fd, const char* name, std::string* value) {
  value->resize(kMostBytes);
  const ssize_t n = fgetxattr(fd, name, value->data(), value->size());
  value->resize(n < 0 ? 0 : static_cast<size_t>(n));
  return n >= 0;
}

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

Result<FileIdentity> identify_file(const Descriptor& file) {
  return file ? identify_file(file.fd(), "") : Result<FileIdentity>(Error{errno_text(errno)});
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

FileAttributes attributes_of(int fd) {
  FileAttributes found;
  struct stat st {};
  if (fstat(fd, &st) == 0) found.group = st.st_gid;
  if (!read_attribute(fd, kAcl, &found.acl) && !is_missing(errno)) found.acl_unread = errno_text(errno);
  std::string names(kMostBytes, 0);
  const ssize_t bytes = flistxattr(fd, names.data(), names.size());
  if (bytes < 0 && !is_missing(errno)) found.user_unread = errno_text(errno);
  size_t total = 0;
  for (const char* name = names.data(); name < names.data() + bytes; name += strlen(name) + 1) {
    if (strncmp(name, "user.", 5) != 0) continue;
    UserAttribute one{name, ""};
    if (!read_attribute(fd, name, &one.value)) {
      if (!is_missing(errno)) found.user_unread = errno_text(errno);
      continue;
    }
    total += one.name.size() + one.value.size();
    if (total > kMostBytes) {
      found.user_unread = formatted("more than {} bytes", kMostBytes);
      break;
    }
    found.user.push_back(std::move(one));
  }
  return found;
}

std::string put_back_attributes(int fd, const FileAttributes& a, uint32_t* mode) {
  if (a.group < 0) return "";
  std::string lacking;
  bool owners_alone = false;
  const auto add = [&](bool right, const std::string& what, const std::string& why) {
    lacking += formatted("{}{}: {}", lacking.empty() ? "" : ", ", what, why);
    owners_alone |= right;
  };
  struct stat st {};
  const auto group = static_cast<gid_t>(a.group);
  if (fstat(fd, &st) != 0 || (st.st_gid != group && fchown(fd, static_cast<uid_t>(-1), group) != 0))
    add(true, formatted("its group {}", group), errno_text(errno));
  for (const UserAttribute& one : a.user)
    if (fsetxattr(fd, one.name.c_str(), one.value.data(), one.value.size(), 0) != 0)
      add(false, "its attribute " + one.name, errno_text(errno));
  // The folder may have given it a list of its own (a default list).
  const bool listed = a.acl.empty() ? fremovexattr(fd, kAcl) == 0 || is_missing(errno)
                                    : fsetxattr(fd, kAcl, a.acl.data(), a.acl.size(), 0) == 0;
  if (!listed) add(true, "its access control list", errno_text(errno));
  if (!a.acl_unread.empty()) add(true, "its access control list", a.acl_unread);
  if (!a.user_unread.empty()) add(false, "attributes that were not saved", a.user_unread);
  if (owners_alone) *mode &= S_IRWXU;
  if (lacking.empty()) return "";
  return formatted("{} (without {})", owners_alone ? " for its owner alone" : "", lacking);
}

}  // namespace cropdl::files
