// Credentials (user, groups, capabilities) of the calling thread, as text. Uses raw system calls: the C
// library would also change the LH's other threads, which the program does not know. LH, main thread.
#pragma once

#include "restart/process/attributes.h"

namespace cropdl::process {

// Of ids: real, effective, saved, file system's; of capabilities: effective, permitted, inheritable.
AttributeReader read_user_ids, read_group_ids, read_groups, read_capabilities, read_bounding_set,
    read_ambient_set, read_secure_bits;

inline constexpr const char *kUserIds = "user ids", *kGroupIds = "group ids",
                            *kGroups = "supplementary groups", *kCapabilities = "capabilities",
                            *kBoundingSet = "capability bounding set", *kAmbientSet = "ambient capabilities",
                            *kSecureBits = "securebits";

}  // namespace cropdl::process
