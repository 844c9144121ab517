// A directory that is held open, and what lies in it. Everything in it is opened from there by a plain name,
// through no symbolic link and without waiting for anybody (a FIFO), and what was opened is what is looked
// at: whoever else may change its names cannot lead us anywhere. For what another user may have made. Lower
// half (LH FS base) and tools; an object is used by one thread at a time.
#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/result.h"

namespace cropdl {

class Folder {
 public:
  // kMine: it, and all that is opened in it, must belong to the effective user (of now) and be nobody else's
  // to write to. What an access control list grants to others shows in the group's bits (man 5 acl).
  enum class Whose { kAnybodys, kMine };

  // Links that `path` leads through are followed: it is the caller's word.
  static Result<Folder> open(const std::string& path, Whose whose);

  const std::string& path() const { return path_; }
  Descriptor& descriptor() { return file_; }
  std::string path_of(const std::string& name) const { return path_ + "/" + name; }

  // Errors begin with the path of what could not be had.
  Result<Folder> folder(const std::string& name) const;
  Result<Descriptor> file(const std::string& name) const;  // a regular one, for reading
  Result<std::string> text(const std::string& name, uint64_t limit) const;
  Result<std::vector<std::string>> names() const;  // all but "." and ".."

  // What is there under that name, which is not opened. 0 or the errno value.
  int look_at(const std::string& name, struct stat* info) const;

  // Whether it, or that name in it and what lies below, `depth` folders deep, is what kMine asks for. What is
  // not there is no obstacle.
  Status check_mine() const;
  Status check_mine(const std::string& name, int depth) const;

 private:
  Folder(Descriptor file, std::string path, std::optional<uid_t> owner)
      : file_(std::move(file)), path_(std::move(path)), owner_(owner) {}
  Result<Descriptor> opened(const std::string& name, int flags, struct stat* info) const;

  Descriptor file_;
  std::string path_;
  std::optional<uid_t> owner_;  // empty: anybody's
};

// A name that leads to an entry of the directory itself.
bool is_plain_name(const std::string& name);

}  // namespace cropdl
