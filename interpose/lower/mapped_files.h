// Mappings of files: which file it was, and mapping it again. LH, the main thread while the program is
// stopped or before it runs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "interpose/lower/file_identity.h"
#include "interpose/lower/mappings.h"

namespace cropdl::lower {

struct MappedFile {
  std::string path;
  bool shared = false;      // it cannot be written to: those that can are refused
  bool executable = false;  // at the cut: not saved, the region has it
  uint64_t offset = 0;
  FileIdentity identity;  // at the cut; inode 0: its name had gone already, or was another file's
};

// "", or why a mapping of this file or device cannot be saved.
std::string file_refusal(const Mapping& mapping);

// Private memory without a file, although the kernel names one (/dev/zero).
bool is_anonymous(const Mapping& mapping);

MappedFile examine_file(const Mapping& mapping);

enum class Remapped { kYes, kOtherFile, kRefused };

// Maps the file over [begin, end), where memory with the contents of the cut lies, readable and writable.
// Pages that the program had changed become its private copies again. kOtherFile: it is not there, or not the
// one it was; the memory stays as it is. kRefused, with *why: the same file, whose contents the program
// shared, has been changed.
Remapped map_file_again(const MappedFile& file, uint64_t begin, uint64_t end, int prot,
                        const std::string& kept, const std::vector<PageRun>& guards, std::string* why);

}  // namespace cropdl::lower
