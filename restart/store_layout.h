// Names and small functions shared by the store's reader and writer; private to restart/.
#pragma once

#include <fcntl.h>

#include <cstdint>
#include <string>

#include "base/folder.h"
#include "base/result.h"
#include "restart/manifest.h"

namespace cropdl::restart {

inline constexpr char kIdentityFile[] = "store.json";
inline constexpr char kLockFile[] = "lock";
inline constexpr char kJobFile[] = "job";  // the control plane's (coord/job_file.h)
inline constexpr char kTemporaryPrefix[] = "tmp-";
// And a process id: a file that measures the disk, unlinked as soon as it is open.
inline constexpr char kSpeedTest[] = "cropdl-doctor-";
inline constexpr char kRemovedSuffix[] = "-removed";
inline constexpr uint64_t kSmallFileLimit = 256 << 20;  // a manifest takes about 200 bytes per rank

// Number of "vNNNNNN"; 0: not such a name.
uint64_t version_number(const std::string& name);

// Returns whether CropDL makes temporary files or directories of that name: "tmp-store.json",
// "tmp-v000003-PID", "tmp-v000003-PID-AGAIN" and "tmp-cropdl-doctor-PID", each also with "-removed", and
// "tmp-v000003-removed". Anything else is the user's own and is left alone.
bool is_temporary(const std::string& name);

// Returns whether a directory with an entry of that name is a store.
bool is_of_a_store(const std::string& name);

// Checks that all images of the manifest are in the version's folder with the manifest's sizes.
Status check_image_files(const Folder& folder, const Manifest& manifest);

// Locks or unlocks (F_UNLCK) [first, first + bytes) of the file in the calling thread's descriptor table; 0
// bytes: to the end and beyond. Returns 0 or the errno value.
int lock_bytes(int fd, off_t first, off_t bytes, short type = F_WRLCK);

// Call before opening the lock file: closing any of its descriptors drops the locks of this descriptor table.
bool locked_by_this_process(const Folder& store);

}  // namespace cropdl::restart
