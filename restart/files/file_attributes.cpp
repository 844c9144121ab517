#include "restart/files/file_attributes.h"

#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/format.h"
#include "base/result.h"

namespace cropdl::files {
namespace {

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
