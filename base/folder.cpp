#include "base/folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <memory>

#include "base/format.h"

namespace cropdl {
namespace {

Status check_owner(const struct stat& info, const std::string& path, uid_t owner) {
  if (info.st_uid != owner)
    return Error{"{}: belongs to user id {}, not to yours ({}); only its owner may restart it", path,
                 info.st_uid, owner};
  if (!S_ISLNK(info.st_mode) && (info.st_mode & (S_IWGRP | S_IWOTH)) != 0)
    return Error{
        "{}: others may write to it (mode {:04o}); take that away (chmod go-w) if you know what is in it",
        path, info.st_mode & 07777};
  return {};
}

}  // namespace

bool is_plain_name(const std::string& name) {
  return !name.empty() && name != "." && name != ".." && name.find('/') == std::string::npos &&
         name.find('\0') == std::string::npos;
}

Result<Folder> Folder::open(const std::string& path, Whose whose, int flags) {
  Folder folder({}, path, {});
  if (whose == Whose::kMine) folder.owner_ = ::geteuid();
  folder.file_ = open_high(path, O_RDONLY | O_DIRECTORY | O_NONBLOCK | flags);
  if (!folder.file_)
    return Error{errno == ENOTDIR ? path + ": is not a directory"
                                  : formatted("{}: {}", path, errno_text(errno))};
  if (whose == Whose::kMine)
    if (Status mine = folder.check_mine(); !mine) return mine.error();
  return folder;
}

Result<Descriptor> Folder::opened(const std::string& name, int flags, struct stat* info) const {
  const std::string path = path_of(name);
  if (!is_plain_name(name)) return Error{path + ": is no plain file name"};
  Descriptor file = open_high(name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | flags, 0, fd());
  if (!file && errno == ELOOP) return Error{path + ": is a symbolic link"};
  if (!file && errno == ENOTDIR) return Error{path + ": is not a directory"};
  if (!file && errno == ENXIO) return Error{path + ": is not a regular file"};  // a socket
  if (!file) return Error{"{}: cannot be opened: {}", path, errno_text(errno)};
  if (::fstat(file.fd(), info) != 0) return Error{"{}: cannot be examined: {}", path, errno_text(errno)};
  if (owner_)
    if (Status mine = check_owner(*info, path, *owner_); !mine) return mine.error();
  return file;
}

Result<Folder> Folder::folder(const std::string& name) const {
  struct stat info;
  Result<Descriptor> file = opened(name, O_DIRECTORY, &info);
  if (!file) return file.error();
  return Folder(std::move(*file), path_of(name), owner_);
}

Result<Descriptor> Folder::file(const std::string& name) const {
  struct stat info;
  Result<Descriptor> file = opened(name, 0, &info);
  if (file && !S_ISREG(info.st_mode)) return Error{path_of(name) + ": is not a regular file"};
  return file;
}

Result<std::string> Folder::text(const std::string& name, uint64_t limit) const {
  const Result<Descriptor> opened = file(name);
  if (!opened) return opened.error();
  return read_small_file(*opened, path_of(name), limit);
}

Result<std::vector<std::string>> Folder::names() const {
  const DescriptorInHand its_descriptor;
  // Opens the directory again, since reading moves a descriptor's position.
  const int fd = ::openat(file_.fd(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const std::unique_ptr<DIR, int (*)(DIR*)> stream(fd >= 0 ? ::fdopendir(fd) : nullptr, ::closedir);
  if (!stream) {
    const int why = errno;
    if (fd >= 0) ::close(fd);
    return Error{"{}: cannot be read: {}", path_, errno_text(why)};
  }
  std::vector<std::string> names;
  for (;;) {
    errno = 0;  // readdir() returns null at the end and at an error
    const dirent* entry = ::readdir(stream.get());
    if (entry == nullptr && errno != 0) return Error{"{}: cannot be read: {}", path_, errno_text(errno)};
    if (entry == nullptr) return names;
    const std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(name);
  }
}

int Folder::look_at(const std::string& name, struct stat* info) const {
  if (!is_plain_name(name)) return EINVAL;
  return ::fstatat(file_.fd(), name.c_str(), info, AT_SYMLINK_NOFOLLOW) == 0 ? 0 : errno;
}

Status Folder::replace_file(const std::string& name, const std::string& draft,
                            const std::string& text) const {
  ::unlinkat(fd(), draft.c_str(), 0);  // left by a killed process
  Descriptor file = create_private_file(draft, O_WRONLY, fd());
  if (!file) return Error{"{}: cannot be created: {}", path_of(draft), errno_text(errno)};
  if (const int failure = write_new_file(std::move(file), fd(), draft, text, true); failure != 0)
    return cannot_be_written(path_of(name), failure);
  if (::renameat(fd(), draft.c_str(), fd(), name.c_str()) != 0) {
    const int failure = errno;
    ::unlinkat(fd(), draft.c_str(), 0);
    return cannot_be_written(path_of(name), failure);
  }
  if (::fsync(fd()) != 0 && errno != EINVAL)
    return Error{"{}: cannot be made durable: {}", path_, errno_text(errno)};
  return {};
}

Status Folder::check_mine() const {
  struct stat info;
  if (::fstat(file_.fd(), &info) != 0) return Error{"{}: {}", path_, errno_text(errno)};
  return check_owner(info, path_, owner_.value_or(::geteuid()));
}

Status Folder::check_mine(const std::string& name, int depth) const {
  struct stat info;
  if (look_at(name, &info) != 0) return {};
  if (Status mine = check_owner(info, path_of(name), owner_.value_or(::geteuid())); !mine) return mine;
  if (!S_ISDIR(info.st_mode) || depth == 0) return {};
  const Result<Folder> inner = folder(name);
  if (!inner) return inner.error();
  const Result<std::vector<std::string>> names = inner->names();
  if (!names) return names.error();
  for (const std::string& one : *names)
    if (Status mine = inner->check_mine(one, depth - 1); !mine) return mine;
  return {};
}

}  // namespace cropdl
