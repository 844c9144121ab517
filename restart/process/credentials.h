// Credentials (user, groups, capabilities) of the calling thread, as text. Uses raw system calls: the C
// library would also change the LH's other threads, which the program does not know. LH, main thread.
#pragma once

#include <string>

#include "restart/process/attributes.h"

namespace cropdl::process {

std::string read_user_ids(int);      // real, effective, saved, file system's
std::string read_group_ids(int);     // likewise
std::string read_groups(int);        // supplementary
std::string read_capabilities(int);  // effective, permitted, inheritable; hexadecimal
std::string read_bounding_set(int);
std::string read_ambient_set(int);
std::string read_secure_bits(int);

inline constexpr const char *kUserIds = "user ids", *kGroupIds = "group ids",
                            *kGroups = "supplementary groups", *kCapabilities = "capabilities",
                            *kBoundingSet = "capability bounding set", *kAmbientSet = "ambient capabilities",
                            *kSecureBits = "securebits";

}  // namespace cropdl::process
