#include "interpose/lower/mappings.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstring>

namespace cropdl::lower {
namespace {

constexpr uint64_t kPage = 4096;

std::string read_text(const char* path) {
  std::string text;
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return text;
  char buffer[65536];
  for (ssize_t n; (n = read(fd, buffer, sizeof buffer)) > 0;) text.append(buffer, static_cast<size_t>(n));
  close(fd);
  return text;
}

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
constexpr uint64_t kIsPresent = 1 << 3, kIsSwapped = 1 << 4;

bool scan(int fd, uint64_t begin, uint64_t end, std::vector<PageRun>* runs) {
  std::vector<PageRegion> found(4096);
  while (begin < end) {
    ScanArguments a{};
    a.size = sizeof a;
    a.start = begin;
    a.end = end;
    a.vec = reinterpret_cast<uint64_t>(found.data());
    a.vec_len = found.size();
    a.category_anyof_mask = a.return_mask = kIsPresent | kIsSwapped;
    const int n = ioctl(fd, kPagemapScan, &a);
    if (n < 0) return false;
    for (int i = 0; i < n; ++i) append(*runs, found[i].begin, found[i].end);
    // The kernel gathers 512 runs at a time (fs/proc/task_mmu.c, PAGEMAP_WALK_SIZE), and tells of more of
    // them the end of the walk that filled its own array, not that of the last: what was found says more.
    const uint64_t walked = n > 0 ? std::max(a.walk_end, found[n - 1].end) : a.walk_end;
    if (walked <= begin) return false;
    begin = walked;
  }
  return true;
}

}  // namespace

std::vector<Mapping> read_mappings() {
  std::vector<Mapping> all;
  const std::string text = read_text("/proc/self/maps");
  for (const char* line = text.c_str(); *line != 0;) {
    const char* end = strchr(line, '\n');
    if (end == nullptr) end = line + strlen(line);
    Mapping m;
    char prot[5] = {};
    int path = 0;
    if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %*x %*x:%*x %" SCNu64 " %n", &m.begin, &m.end, prot,
               &m.inode, &path) >= 4) {
      m.prot = (prot[0] == 'r' ? PROT_READ : 0) | (prot[1] == 'w' ? PROT_WRITE : 0) |
               (prot[2] == 'x' ? PROT_EXEC : 0);
      m.shared = prot[3] == 's';
      if (path > 0 && line + path < end) m.path.assign(line + path, end);
      all.push_back(std::move(m));
    }
    line = *end == 0 ? end : end + 1;
  }
  return all;
}

std::vector<PageRun> present_pages(uint64_t begin, uint64_t end) {
  std::vector<PageRun> runs;
  const int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return {{begin, end}};
  if (!scan(fd, begin, end, &runs)) {
    runs.clear();
    std::vector<uint64_t> entries(65536);
    for (uint64_t a = begin; a < end;) {
      const uint64_t pages = std::min<uint64_t>((end - a) / kPage, entries.size());
      if (pread(fd, entries.data(), pages * 8, static_cast<off_t>(a / kPage * 8)) !=
          static_cast<ssize_t>(pages * 8)) {
        append(runs, a, end);  // cannot tell: take all of it
        break;
      }
      for (uint64_t i = 0; i < pages;
           ++i)  // bit 63: present, 62: swapped (Documentation/admin-guide/mm/pagemap.rst)
        if (entries[i] >> 62 != 0) append(runs, a + i * kPage, a + (i + 1) * kPage);
      a += pages * kPage;
    }
  }
  close(fd);
  return runs;
}

std::vector<PageRun> readable_pages(uint64_t begin, uint64_t end) {
  // process_vm_readv stops before the first page that cannot be read, without a signal.
  std::vector<PageRun> runs;
  char bytes[512];
  for (uint64_t a = begin; a < end;) {
    iovec remote[512];
    int n = 0;
    for (uint64_t p = a; p < end && n < 512; p += kPage) remote[n++] = {reinterpret_cast<void*>(p), 1};
    iovec local{bytes, static_cast<size_t>(n)};
    const ssize_t got = process_vm_readv(getpid(), &local, 1, remote, static_cast<unsigned long>(n), 0);
    const uint64_t readable = got > 0 ? static_cast<uint64_t>(got) : 0;
    if (readable > 0) append(runs, a, a + readable * kPage);
    a += readable * kPage;
    if (readable < static_cast<uint64_t>(n)) a += kPage;  // that one cannot
  }
  return runs;
}

}  // namespace cropdl::lower
