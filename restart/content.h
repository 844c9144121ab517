// Contents of files that a version keeps beside its images: copies that keep holes, checksums independent of
// holes; and checks of outside files whose contents no image has. LH (LH FS base) and tools; any thread.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <string>

#include "base/folder.h"
#include "base/result.h"

namespace cropdl::restart {

// Opens a saved file of a version, by its name in an image's metadata: FOLDER/NAME.
Result<Descriptor> open_stored(const Folder& version, const std::string& stored);

// XXH3-64 over the nonzero blocks (64 KiB, by position) of [from, to). An earlier end of file is an error.
Result<uint64_t> content_checksum(int fd, uint64_t from, uint64_t to, const std::string& name);

// Copies `bytes` bytes of `from` into the empty file `to`: by reference if the file system can, else the data
// but not the holes. The caller calls fsync(2). Returns content_checksum() of the copy.
Result<uint64_t> copy_content(int from, int to, uint64_t bytes, const std::string& name);

// Makes the first `bytes` bytes of `to` those of `from`, writing only differences, and truncates `to` there.
// `changed`: it was different.
Status put_back_content(int from, int to, uint64_t bytes, const std::string& name, bool* changed);

// Returns whether the file has this size (bytes) and modification time (ns since 1970).
bool has_size_and_time(const struct stat& file, uint64_t size, int64_t modified);

// Checks that a data set is unchanged: a file that the program had mapped and only reads, hence not saved. By
// size (bytes) and modification time (ns since 1970), not by checksum. `fd`: the open file; -1: by `path`.
Status check_data_set(const std::string& path, int fd, int64_t size, int64_t modified);

}  // namespace cropdl::restart
