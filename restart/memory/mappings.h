// This process's memory map, and which pages of it exist. LH; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/readable.h"
#include "restart/chunks.h"

namespace cropdl::host_memory {

// Whether `flags`, in the form of smaps' VmFlags, contains the two-letter flag `name`.
bool has_flag(std::string_view flags, const char* name);

struct Mapping {
  uint64_t begin = 0, end = 0;
  int prot = 0;  // PROT_*
  bool shared = false;
  uint64_t offset = 0;  // in the file
  uint64_t inode = 0;   // 0: anonymous
  std::string path;     // or a name in brackets; "" for anonymous memory
  std::string flags;    // smaps' VmFlags, two letters and a blank each; read_mappings_and_flags() only
  int protection_key = 0;

  bool has(const char* flag) const { return has_flag(flags, flag); }
};

std::vector<Mapping> read_mappings();  // from /proc/self/maps (man 5 proc)
// From /proc/self/smaps: slower, since the kernel walks the page tables. Empty if this kernel has no smaps.
std::vector<Mapping> read_mappings_and_flags();

using PageRun = restart::Extent;

struct Pages {
  std::vector<PageRun> present;  // in memory or swapped out
  std::vector<PageRun> guards;   // MADV_GUARD_INSTALL: touching one raises SIGSEGV
  std::vector<PageRun> unclear;  // neither in memory nor known to be readable
  std::vector<PageRun> copies;   // of a file's mapping: pages that are no longer the file's
};

// The pages of [begin, end), from PAGEMAP_SCAN (Linux 6.7) or /proc/self/pagemap. The kernel looks at each
// page for copies, so they are found only on request.
enum class FindCopies { kNo, kYes };
Pages pages_of(uint64_t begin, uint64_t end, FindCopies copies = FindCopies::kNo);

// The readable pages of [begin, end), found without SIGBUS (beyond a file's end) or SIGSEGV.
std::vector<PageRun> readable_pages(const ReadableMemory& memory, uint64_t begin, uint64_t end);

std::string range(uint64_t begin, uint64_t end);  // as text
inline void* pointer(uint64_t address) { return reinterpret_cast<void*>(address); }

}  // namespace cropdl::host_memory
