// Identity, state and attributes of a file. LH; any thread.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/result.h"

namespace cropdl::files {

// Distinguishes a file from another of its name, and one state of it from a later one (statx(2)).
struct FileIdentity {
  uint64_t device = 0, inode = 0;
  int64_t born = -1;  // ns since 1970; -1: the file system does not tell
  int64_t modified = -1;
  int64_t size = 0;
  uint32_t mode = 0;
  std::string handle;  // name_to_handle_at(2): differs between inodes of the same number; "": unknown
  static constexpr const char* kMembers[] = {"device", "inode", "born", "modified", "size", "mode", "handle"};
};

// The file to which `fd` or, if fd < 0, `path` leads; neither: the current directory, whoever may search it.
Result<FileIdentity> identify_file(int fd, const std::string& path);
// An opened file. Empty: the error is errno, of its open just before.
Result<FileIdentity> identify_file(const Descriptor& file);

// Whether both are of one file, if it is open somewhere or was examined just before: on every file system.
inline bool is_same_inode(const FileIdentity& a, const FileIdentity& b) {
  return a.device == b.device && a.inode == b.inode;
}

// Whether `now` is the saved file, whatever was written to it, and not one that replaced it.
bool is_same_file(const FileIdentity& saved, const FileIdentity& now);

// Whether `now` is provably another file. If is_same_file() is false, too, the file system tells too little.
bool is_another_file(const FileIdentity& saved, const FileIdentity& now);

// Equal size and modification time: nobody has written to the file, as far as can be seen without reading it.
bool looks_the_same(const FileIdentity& saved, const FileIdentity& now);

// Whether NFS or FUSE gives such a name to a deleted file until the program that has it open ends.
bool has_name_of_deleted(const std::string& path);

// Whether it is a table of user and group names, which a service (sssd, nscd) changes at any time.
bool is_a_services_table(const std::string& path);

// A file that ranks put back late in a restart (reopen_files.h), and the paths by which they do: if some have
// saved it whole, the others, who only append to it, leave it to them.
struct PutBack {
  bool whole = false;
  std::set<std::string> paths;
};
using FilesPutBack = std::map<std::pair<uint64_t, uint64_t>, PutBack>;  // by device and inode at the cut

// --- Group, access control list (man 5 acl) and users' extended attributes (man 7 xattr) of a file that a
// restart makes again.

struct UserAttribute {
  std::string name;  // with its "user."
  std::string value;
  static constexpr const char* kMembers[] = {"name", "value"};  // base/json.h
};

struct FileAttributes {
  int64_t group = -1;  // -1: an image that says nothing of attributes
  std::string acl;     // as the kernel writes it; "": none
  std::vector<UserAttribute> user;
  std::string acl_unread, user_unread;  // "", or why the list, or an attribute, is not saved
  static constexpr const char* kMembers[] = {"group", "acl", "user", "acl_unread", "user_unread"};
};

FileAttributes attributes_of(int fd);

// Takes others' rights from `mode` if the group or the list cannot be put back. Returns "" or what the file
// lacks. For a file of the caller's that only he can open; before fchmod(2).
std::string put_back_attributes(int fd, const FileAttributes& attributes, uint32_t* mode);

}  // namespace cropdl::files
