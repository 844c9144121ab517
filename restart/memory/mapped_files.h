// Mappings of files: which file is mapped, and how again. LH, MAIN, stopped or before the program runs.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "restart/memory/memory_state.h"

namespace cropdl::host_memory {

std::string file_refusal(const Mapping& mapping);  // "", or why this file or device cannot be saved
bool is_anonymous(const Mapping& mapping);  // private, without a file, even if it has a name (/dev/zero)

MappedFile examine_file(const Mapping& mapping);

// Whether the kernel may not tell the program's copies from the file's pages (Pages::copies): on DAX no page
// cache has either. Elsewhere, what the kernel merged (KSM) and its page of zeros are copies.
bool may_be_on_dax(const MappedFile& file);

// Whether the contents can stay in the file: a large data set that the program shares and cannot write to,
// unchanged since the program began (`began`, ns since 1970; 0: unknown, and nothing is left), not in memory
// (tmpfs: lost as easily as a program), and not of a name that ends with the process (NFS, FUSE).
bool may_be_left_in_file(const MappedFile& file, uint64_t bytes, int64_t began);

// Makes such a file durable, as an image is: a power failure could lose data of the page cache, but leave
// size and time. Once for each state of a file. False: impossible, or another file.
bool make_durable(const MappedFile& file);

// Checks that a file still has the contents left in it, of which `bytes` are mapped. `as_it_is`: any regular
// file of its name that is long enough suffices (FilesPolicy::kKeep). `fd`: the opened file; -1: by its name.
Status check_left_in_file(const MappedFile& file, uint64_t bytes, bool as_it_is, int fd = -1);

// Maps the region's file over it, replacing mappings. Checks it again: its name may lead elsewhere by now.
Status map_left_in_file(const RegionState& region, int prot, bool as_it_is);

// Maps the region's file over it, where readable and writable memory has the contents of the cut. Pages that
// differ from the file, and `copies`, become private copies again. False: the file is missing or another one;
// the memory stays unchanged. An error: the same file, which the program shared, has changed.
Result<bool> map_file_again(const RegionState& region, int prot);

}  // namespace cropdl::host_memory
