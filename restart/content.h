// Contents of files that belong to a version beside the images: copies that keep holes, and a checksum that
// does not depend on them; and files elsewhere that have what no image has. Lower half (LH FS base) and
// tools; any thread.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <string>

#include "base/folder.h"
#include "base/result.h"

namespace cropdl::restart {

// One of a version's files of contents, by the name that an image's metadata has for it: FOLDER/NAME.
Result<Descriptor> open_stored(const Folder& version, const std::string& stored);

// XXH3-64 over the blocks (64 KiB, by their place) of [from, to) of the file that are not all zero. A file
// that ends before `to` is an error.
Result<uint64_t> content_checksum(int fd, uint64_t from, uint64_t to, const std::string& name);

// Copies `bytes` bytes of `from` into the empty file `to`: by reference where the file system can, else data
// without holes; fsync(2) is the caller's. Returns content_checksum() of the copy.
Result<uint64_t> copy_content(int from, int to, uint64_t bytes, const std::string& name);

// Makes the first `bytes` bytes of `to` those of `from`, writing only what differs, and cuts it there.
// `changed`: it was different.
Status put_back_content(int from, int to, uint64_t bytes, const std::string& name, bool* changed);

// Whether a file has that size (bytes) and that time of the last change (ns since 1970).
bool has_size_and_time(const struct stat& file, uint64_t size, int64_t modified);

// Of a data set that stayed in its file, because the program had mapped it and only reads it: whether it is
// as it was. Its contents have no checksum; the size (bytes) and the time of change (ns since 1970) tell.
// `fd`: the file, opened; -1: the one of that name.
Status check_data_set(const std::string& path, int fd, int64_t size, int64_t modified);

}  // namespace cropdl::restart
