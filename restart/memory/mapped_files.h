// Mappings of files: which file it was, and mapping it again. LH, the main thread while the program is
// stopped or before it runs.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "restart/files/file_identity.h"
#include "restart/memory/mappings.h"

namespace cropdl::host_memory {

struct MappedFile {
  std::string path;
  bool shared = false;        // it cannot be written to: those that can are refused
  bool executable = false;    // at the cut: not saved, the region has it
  bool left_in_file = false;  // no image has its contents: they are the file's, which may not have changed
  uint64_t offset = 0;
  files::FileIdentity identity;  // at the cut; inode 0: its name had gone already, or was another file's
};

// "", or why a mapping of this file or device cannot be saved.
std::string file_refusal(const Mapping& mapping);

// Private memory without a file, although the kernel names one (/dev/zero).
bool is_anonymous(const Mapping& mapping);

MappedFile examine_file(const Mapping& mapping);

// Whether the contents need not be saved, because they are the file's own and stay there: a data set that the
// program shares and cannot write to, large enough to be worth it, that nobody has written to since the
// program began (`began`, ns since 1970; 0: not known, and nothing is left), and not in memory (tmpfs), where
// files are lost as easily as programs. Nor a name that ends with the process (NFS, FUSE).
bool may_be_left_in_file(const MappedFile& file, uint64_t bytes, int64_t began);

// Makes contents and time of such a file durable, as an image is: what only the page cache has is lost with
// the power, and size and time may be the same then. False: it cannot, or the name is another file's. Once
// for each state of a file. MAIN, while the program is stopped.
bool make_durable(const MappedFile& file);

// Of a file whose contents were left in it: whether it has them still. `as_it_is`: a regular file of its name
// is enough if it is long enough, as the user wants it (FilesPolicy::kKeep). `bytes` of it are mapped. `fd`:
// the file, opened; -1: the one of its name.
Status check_left_in_file(const MappedFile& file, uint64_t bytes, bool as_it_is, int fd = -1);

// Maps it over [begin, end), where anything lies. The file is opened by its name, which may lead to another
// one since check_left_in_file(): so what was opened is checked again.
Status map_left_in_file(const MappedFile& file, uint64_t begin, uint64_t end, int prot, bool as_it_is);

// Files by device and inode, as they were at the cut.
using FileKeys = std::set<std::pair<uint64_t, uint64_t>>;

enum class Remapped { kYes, kOtherFile, kRefused };

// Maps the file over [begin, end), where memory with the contents of the cut lies, readable and writable.
// Pages that the program had changed become its private copies again. `will_be_put_back`: a rank restores the
// file's contents later (files::apply_files), so a shared mapping need not have them yet. kOtherFile: it is
// not there, or not the one it was; the memory stays as it is. kRefused, with *why: the same file, whose
// contents the program shared, has been changed.
Remapped map_file_again(const MappedFile& file, uint64_t begin, uint64_t end, int prot,
                        const std::string& kept, const std::vector<PageRun>& guards, bool will_be_put_back,
                        std::string* why);

}  // namespace cropdl::host_memory
