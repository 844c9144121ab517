// Reads an ELF file and maps its segments as the kernel does. LH or tools; any thread.
#pragma once

#include <elf.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace cropdl::launching {

struct ElfFile {
  std::string path;
  Elf64_Ehdr header{};
  std::vector<Elf64_Phdr> segments;
  std::string interpreter;          // "": static
  std::vector<std::string> needed;  // DT_NEEDED
  std::string names;                // dynamic string table: all defined and undefined symbols, zero-separated
  bool knows(const std::string& symbol) const;
  bool position_independent() const { return header.e_type == ET_DYN; }
};

// Refuses a file that is not an x86-64 ELF program; the error says what it is.
Result<ElfFile> read_elf(const std::string& path);

struct MappedElf {
  uint64_t begin = 0, end = 0;  // addresses covered
  uint64_t bias = 0;            // added to p_vaddr
  uint64_t entry = 0;
  uint64_t headers = 0;  // program headers in memory
};

// Maps the segments: a position-independent file at `at` (page-aligned), rounded up to the file's alignment;
// any other file at its link address. Refuses to replace a mapping.
Result<MappedElf> map_elf(const ElfFile& elf, uint64_t at);

}  // namespace cropdl::launching
