// Names and small functions shared by the store's reading and writing halves; private to restart/.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/folder.h"
#include "base/result.h"
#include "restart/manifest.h"

namespace cropdl::restart {

inline constexpr char kIdentityFile[] = "store.json";
inline constexpr char kLockFile[] = "lock";
inline constexpr char kJobFile[] = "job";  // the control plane's (coord/job_file.h)
inline constexpr char kTemporaryPrefix[] = "tmp-";
inline constexpr char kRemovedSuffix[] = "-removed";
inline constexpr uint64_t kSmallFileLimit = 256 << 20;  // a manifest takes some 200 bytes a rank

// Of "vNNNNNN"; 0 if it is not such a name.
uint64_t version_number(const std::string& name);

// All entries but "." and "..".
Result<std::vector<std::string>> directory_names(const std::string& directory);

// All images of the manifest are in the version's folder and have its sizes.
Status check_image_files(const Folder& folder, const Manifest& manifest);

// Closing any descriptor of the lock file drops the locks that this process' own table of descriptors holds:
// whoever is about to open the lock file asks here first.
bool locked_by_this_process(const std::string& directory);

}  // namespace cropdl::restart
