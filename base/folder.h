// An open directory, perhaps made by another user, and its entries: opened by plain names relative to the
// descriptor, without following symbolic links or blocking (on a FIFO). Checks use the opened descriptor: who
// renames entries cannot redirect them. LH (LH FS base) and tools; one thread at a time per object.
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
  // kMine: the directory, and all that is opened in it, must belong to the effective user, and nobody else
  // may write to it. Rights by an access control list appear in the group's bits (man 5 acl).
  enum class Whose { kAnybodys, kMine };

  // Follows symbolic links in `path`, since the caller chose it; with `flags` O_NOFOLLOW not at its end.
  static Result<Folder> open(const std::string& path, Whose whose, int flags = 0);

  const std::string& path() const { return path_; }
  Descriptor& descriptor() { return file_; }
  int fd() const { return file_.fd(); }
  std::string path_of(const std::string& name) const { return path_ + "/" + name; }

  // Errors begin with the path that could not be opened.
  Result<Folder> folder(const std::string& name) const;
  Result<Descriptor> file(const std::string& name) const;  // a regular file, for reading
  Result<std::string> text(const std::string& name, uint64_t limit) const;
  Result<std::vector<std::string>> names() const;  // all but "." and ".."

  // Examines that name without opening it. Returns 0 or the errno value.
  int look_at(const std::string& name, struct stat* info) const;

  // Writes a file anew, for its owner alone, durably and atomically. It has the name `draft` meanwhile.
  Status replace_file(const std::string& name, const std::string& draft, const std::string& text) const;

  // Check that this directory, or that name in it and all below, `depth` deep, meets kMine or is missing.
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

// Returns whether `name` names an entry of the directory itself: not empty, no slash, not "." or "..".
bool is_plain_name(const std::string& name);

}  // namespace cropdl
