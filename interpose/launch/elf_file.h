// An ELF file on disk: what kind of program it is, and its segments mapped as the kernel would map them. LH
// or tools; any thread.
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
  std::string names;  // its dynamic string table: all symbols that it defines or wants, between zeros
  bool knows(const std::string& symbol) const;
  bool position_independent() const { return header.e_type == ET_DYN; }
};

// Refuses what is not an x86-64 ELF program, saying what it is.
Result<ElfFile> read_elf(const std::string& path);

struct MappedElf {
  uint64_t begin = 0, end = 0;  // addresses covered
  uint64_t bias = 0;            // added to p_vaddr
  uint64_t entry = 0;
  uint64_t headers = 0;  // program headers in memory
};

// Maps the segments; position-independent files at `at` (page-aligned), or as little above it as their
// alignment wants, others where they were linked.
// Refuses to replace anything that is there.
Result<MappedElf> map_elf(const ElfFile& elf, uint64_t at);

}  // namespace cropdl::launching
