// Group, access control list (man 5 acl) and users' extended attributes (man 7 xattr) of a file that a
// restart makes again. LH; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace cropdl::files {

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
