// This process's memory map, and which pages of it exist. LH; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace cropdl::lower {

struct Mapping {
  uint64_t begin = 0, end = 0;
  int prot = 0;  // PROT_*
  bool shared = false;
  uint64_t inode = 0;  // 0: anonymous
  std::string path;    // or a name in brackets; "" for anonymous memory
};

// From /proc/self/maps (man 5 proc).
std::vector<Mapping> read_mappings();

struct PageRun {
  uint64_t begin, end;
};

// Runs of pages in [begin, end) that are in memory or swapped out: PAGEMAP_SCAN (Linux 6.7) or
// /proc/self/pagemap.
std::vector<PageRun> present_pages(uint64_t begin, uint64_t end);

// Runs of pages of a file mapping that can be read: those beyond the file's end raise SIGBUS.
std::vector<PageRun> readable_pages(uint64_t begin, uint64_t end);

}  // namespace cropdl::lower
