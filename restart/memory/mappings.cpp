#include "restart/memory/mappings.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "base/file.h"
#include "base/format.h"
#include "base/page.h"

namespace cropdl::host_memory {
namespace {

void append(std::vector<PageRun>& runs, uint64_t begin, uint64_t end) {
  if (!runs.empty() && runs.back().end == begin)
    runs.back().end = end;
  else
    runs.push_back({begin, end});
}

// include/uapi/linux/fs.h of Linux 6.7; Debian 12's headers are older.
struct PageRegion {
  uint64_t begin, end, categories;
};
struct ScanArguments {
  uint64_t size, flags, start, end, walk_end, vec, vec_len, max_pages;
  uint64_t category_inverted, category_mask, category_anyof_mask, return_mask;
};
constexpr unsigned long kPagemapScan = _IOWR('f', 16, ScanArguments);
constexpr uint64_t kIsFile = 1 << 2, kIsPresent = 1 << 3, kIsSwapped = 1 << 4;
constexpr uint64_t kIsGuard = 1 << 8;  // Linux 6.15; older kernels refuse the bit

// A page that is neither present nor a guard is swapped out, or has one of the kernel's marks: a guard that
// the kernel does not report as one (Linux 6.13), or memory that the machine found broken.
void sort_in(Pages& pages, uint64_t begin, uint64_t end, bool present, bool guard, bool copy) {
  append(guard ? pages.guards : present ? pages.present : pages.unclear, begin, end);
  if (copy && !guard) append(pages.copies, begin, end);
}

bool scan(int fd, uint64_t begin, uint64_t end, uint64_t categories, FindCopies copies, Pages* pages) {
  std::vector<PageRegion> found(4096);
  while (begin < end) {
    ScanArguments a{};
    a.size = sizeof a;
    a.start = begin;
    a.end = end;
    a.vec = reinterpret_cast<uint64_t>(found.data());
    a.vec_len = found.size();
    a.category_anyof_mask = a.return_mask = categories;
    if (copies == FindCopies::kYes) a.return_mask |= kIsFile;
    const int n = ioctl(fd, kPagemapScan, &a);
    if (n < 0) return false;
    for (int i = 0; i < n; ++i)
      sort_in(*pages, found[i].begin, found[i].end, (found[i].categories & kIsPresent) != 0,
              (found[i].categories & kIsGuard) != 0,
              copies == FindCopies::kYes && (found[i].categories & kIsFile) == 0);
    // The kernel gathers 512 runs at a time (fs/proc/task_mmu.c, PAGEMAP_WALK_SIZE). With more, walk_end is
    // that of the walk that filled its own array, not of the last one; the last run found may end later.
    const uint64_t walked = n > 0 ? std::max(a.walk_end, found[n - 1].end) : a.walk_end;
    if (walked <= begin) return false;
    begin = walked;
  }
  return true;
}

// Reads /proc/self/pagemap (Documentation/admin-guide/mm/pagemap.rst). False: it cannot be read.
bool read_entries(int fd, uint64_t begin, uint64_t end, FindCopies copies, Pages* pages) {
  constexpr uint64_t kPresent = 1ull << 63, kSwapped = 1ull << 62, kFile = 1ull << 61, kGuard = 1ull << 58;
  std::vector<uint64_t> entries(65536);
  for (uint64_t a = begin; a < end;) {
    const uint64_t count = std::min<uint64_t>((end - a) / kPage, entries.size());
    if (pread(fd, entries.data(), count * 8, static_cast<off_t>(a / kPage * 8)) !=
        static_cast<ssize_t>(count * 8))
      return false;
    for (uint64_t i = 0; i < count; ++i)
      if ((entries[i] & (kPresent | kSwapped)) != 0)
        sort_in(*pages, a + i * kPage, a + (i + 1) * kPage, (entries[i] & kPresent) != 0,
                (entries[i] & kPresent) == 0 && (entries[i] & kGuard) != 0,
                copies == FindCopies::kYes && (entries[i] & kFile) == 0);
    a += count * kPage;
  }
  return true;
}

// The kernel writes a newline in a path as \012, and a backslash as it is (fs/seq_file.c, seq_path).
void unescape(Mapping* m) {
  if (m->path.find("\\012") == std::string::npos) return;
  std::string real = m->path;
  struct stat file {};
  const auto is_its = [&](const std::string& path) {
    return stat(path.c_str(), &file) == 0 && file.st_ino == m->inode;
  };
  for (size_t at = 0; (at = real.find("\\012", at)) != std::string::npos; ++at) real.replace(at, 4, "\n");
  if (!is_its(m->path) && is_its(real)) m->path = std::move(real);
}

// Parses the first line of a mapping: "BEGIN-END rwxp OFFSET MAJOR:MINOR INODE   PATH".
bool parse_mapping(const char* line, const char* end, Mapping* m) {
  char* at = nullptr;
  m->begin = strtoull(line, &at, 16);
  if (at == line || *at != '-') return false;
  m->end = strtoull(at + 1, &at, 16);
  if (*at != ' ' || end - at < 6) return false;
  m->prot = (at[1] == 'r' ? PROT_READ : 0) | (at[2] == 'w' ? PROT_WRITE : 0) | (at[3] == 'x' ? PROT_EXEC : 0);
  m->shared = at[4] == 's';
  m->offset = strtoull(at + 5, &at, 16);
  strtoull(at, &at, 16);  // device
  if (*at == ':') strtoull(at + 1, &at, 16);
  m->inode = strtoull(at, &at, 10);
  while (at < end && *at == ' ') ++at;
  if (at < end) m->path.assign(static_cast<const char*>(at), end);
  unescape(m);
  return true;
}

std::vector<Mapping> parse_mappings(const std::string& text) {
  std::vector<Mapping> all;
  for (const char* line = text.c_str(); *line != 0;) {
    const char* end = strchr(line, '\n');
    if (end == nullptr) end = line + strlen(line);
    if (*line < 'A' || *line >= 'a') {  // an address; smaps' fields begin with a capital letter
      Mapping m;
      if (parse_mapping(line, end, &m)) all.push_back(std::move(m));
    } else if (!all.empty() && strncmp(line, "ProtectionKey:", 14) == 0) {
      all.back().protection_key = atoi(line + 14);
    } else if (!all.empty() && strncmp(line, "VmFlags: ", 9) == 0) {
      all.back().flags.assign(line + 9, end);
    }
    line = *end == 0 ? end : end + 1;
  }
  return all;
}

}  // namespace

bool has_flag(std::string_view flags, const char* name) {
  for (size_t i = 0; i + 1 < flags.size(); i += 3)
    if (flags[i] == name[0] && flags[i + 1] == name[1]) return true;
  return false;
}

std::vector<Mapping> read_mappings() { return parse_mappings(kernel_text("/proc/self/maps")); }

std::vector<Mapping> read_mappings_and_flags() { return parse_mappings(kernel_text("/proc/self/smaps")); }

Pages pages_of(uint64_t begin, uint64_t end, FindCopies copies) {
  const Descriptor file(open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC));
  Pages pages;
  for (const uint64_t categories : {kIsPresent | kIsSwapped | kIsGuard, kIsPresent | kIsSwapped}) {
    if (file && scan(file.fd(), begin, end, categories, copies, &pages)) return pages;
    pages = {};
  }
  if (!file || !read_entries(file.fd(), begin, end, copies, &pages)) pages = {{}, {}, {{begin, end}}, {}};
  return pages;
}

std::vector<PageRun> readable_pages(const ReadableMemory& memory, uint64_t begin, uint64_t end) {
  std::vector<PageRun> runs;
  for (uint64_t a = begin; a < end;) {
    const uint64_t readable = memory.probe(a, end);
    if (readable > a) append(runs, a, readable);
    a = readable + kPage;  // skip the unreadable page
  }
  return runs;
}

std::string range(uint64_t begin, uint64_t end) { return formatted("{:x}-{:x}", begin, end); }

}  // namespace cropdl::host_memory
