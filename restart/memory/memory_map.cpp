#include "restart/memory/memory_map.h"

#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <memory>
#include <utility>

#include "base/format.h"
#include "base/page.h"
#include "interpose/seam/extents.h"
#include "restart/memory/mapping_flags.h"
#include "restart/memory/memory_policy.h"
#include "restart/page_sources.h"

namespace cropdl::host_memory {
namespace {

Error unknown_memory(int why) {
  return {formatted("cannot find out which memory is readable: {}{}", errno_text(why),
                    why == EFBIG ? " (the program's hard limit of file sizes, RLIMIT_FSIZE)" : "")};
}

constexpr int kGuardInstall = 102;  // MADV_GUARD_INSTALL, Linux 6.13
constexpr long kSeal = 462;         // mseal(2), Linux 6.10

std::string range(uint64_t begin, uint64_t end) {
  char text[64];
  snprintf(text, sizeof text, "%" PRIx64 "-%" PRIx64, begin, end);
  return text;
}

void* pointer(uint64_t address) { return reinterpret_cast<void*>(address); }

// One mapping may belong to the LH and the program, since the kernel merges adjacent ones. Adds the program's
// part.
void add_part(std::vector<Mapping>& to, const Mapping& m, uint64_t begin, uint64_t end) {
  Mapping part = m;
  part.begin = std::max(m.begin, begin);
  part.end = std::min(m.end, end);
  part.offset += part.begin - m.begin;
  if (part.begin < part.end) to.push_back(std::move(part));
}

void let_run() { usleep(20); }

// The table's entries, unordered. In an image of an older core they may overlap.
std::vector<seam::OutsideExtent> extents_outside() {
  const seam::Extents table(seam::state(), let_run);
  std::vector<seam::OutsideExtent> all;
  for (uint32_t i = 0; i < table.size(); ++i)
    if (table[i].end != 0) all.push_back(table[i]);
  return all;
}

// Drops extents that are not mapped from the table. The program is stopped, and `all` has every mapping. If
// the table has too few entries for all parts, it stays unchanged.
void drop_what_is_not_mapped(const std::vector<Mapping>& all) {
  std::vector<seam::OutsideExtent> mapped;
  for (const seam::OutsideExtent& e : extents_outside()) {
    for (const Mapping& m : all) {
      const uint64_t begin = std::max(m.begin, e.begin), end = std::min(m.end, e.end);
      if (begin >= end) continue;
      if (!mapped.empty() && mapped.back().end == begin)
        mapped.back().end = end;
      else
        mapped.push_back({begin, end});
    }
  }
  seam::Extents table(seam::state(), let_run);
  if (table.incomplete() || mapped.size() > seam::kMaxExtents) return;
  table.clear();
  for (const seam::OutsideExtent& e : mapped) table.add(e.begin, e.end);
}

// The ranges in which the program may have memory: ascending, and none touches the next.
std::vector<seam::OutsideExtent> program_ranges() {
  std::vector<seam::OutsideExtent> ranges = {{0, seam::kLowBegin},
                                             {seam::kControlPage + seam::kControlPageSize, seam::kWindowEnd}};
  for (const seam::OutsideExtent& e : extents_outside())
    if (e.end > seam::kLowEnd) ranges.push_back({std::max(e.begin, seam::kLowEnd), e.end});
  std::sort(ranges.begin(), ranges.end(), [](auto& a, auto& b) { return a.begin < b.begin; });
  std::vector<seam::OutsideExtent> joined;
  for (const seam::OutsideExtent& r : ranges) {
    if (joined.empty() || joined.back().end < r.begin)
      joined.push_back(r);
    else
      joined.back().end = std::max(joined.back().end, r.end);
  }
  return joined;
}

// The program's part of all mappings, which are in ascending order.
std::vector<Mapping> program_part(const std::vector<Mapping>& all) {
  std::vector<Mapping> mine;
  const std::vector<seam::OutsideExtent> ranges = program_ranges();
  auto range = ranges.begin();
  for (const Mapping& m : all) {
    if (m.path == "[vsyscall]" || m.path.starts_with("[vvar") || m.path == "[vdso]") continue;
    while (range != ranges.end() && range->end <= m.begin) ++range;
    for (auto r = range; r != ranges.end() && r->begin < m.end; ++r) add_part(mine, m, r->begin, r->end);
  }
  return mine;
}

// Makes memory readable while the object exists: memory under PROT_NONE is saved, too.
class OpenedUp {
 public:
  OpenedUp(uint64_t begin, uint64_t end, int prot) : begin_(begin), end_(end), prot_(prot) {
    if ((prot & PROT_READ) != 0) return;
    changed_ = mprotect(pointer(begin), end - begin, prot | PROT_READ) == 0;
    error_ = changed_ ? 0 : errno;
  }
  ~OpenedUp() {
    if (changed_) mprotect(pointer(begin_), end_ - begin_, prot_);
  }
  OpenedUp(const OpenedUp&) = delete;
  OpenedUp& operator=(const OpenedUp&) = delete;
  Status status() const {
    if (error_ == 0) return {};
    return Error{
        formatted("cannot read the program's memory {}: {}", range(begin_, end_), errno_text(error_))};
  }

 private:
  const uint64_t begin_, end_;
  const int prot_;
  bool changed_ = false;
  int error_ = 0;
};

void add_extents(restart::Region& region, const std::vector<PageRun>& runs) {
  for (const PageRun& r : runs) region.present.push_back({r.begin, r.end});
}

// A page neither present nor known to be a guard is swapped out, and then readable. If it is not, an image
// without it would be wrong.
Status examine_anonymous(const Mapping& m, const ReadableMemory& memory, restart::Region& region,
                         std::vector<PageRun>* guards) {
  Pages pages = pages_of(m.begin, m.end);
  add_extents(region, pages.present);
  *guards = pages.guards;
  if (pages.unclear.empty()) return {};
  const OpenedUp opened(m.begin, m.end, m.prot);
  if (!opened.status()) return opened.status();
  for (const PageRun& r : pages.unclear) {
    std::vector<PageRun> readable;
    if (!readable_pages(memory, r.begin, r.end, &readable)) return unknown_memory(errno);
    if (readable != std::vector<PageRun>{r})
      return Error{
          formatted("the program's memory at {} cannot be read: guard pages (MADV_GUARD_INSTALL) of a kernel "
                    "that does not tell them from others, or broken memory",
                    range(r.begin, r.end))};
    region.present.push_back({r.begin, r.end});
  }
  std::sort(region.present.begin(), region.present.end(), [](auto& a, auto& b) { return a.begin < b.begin; });
  return {};
}

// A file's pages exist up to its end, in memory or not. Pages that cannot be read must be beyond the end.
Status examine_file_pages(const Mapping& m, const MappedFile& file, const ReadableMemory& memory,
                          restart::Region& region, std::vector<PageRun>* guards) {
  *guards = pages_of(m.begin, m.end).guards;
  const OpenedUp opened(m.begin, m.end, m.prot);
  if (!opened.status()) return opened.status();
  uint64_t at = m.begin, missing = m.end;
  const auto read = [&](uint64_t begin, uint64_t end) {
    std::vector<PageRun> runs;
    if (!readable_pages(memory, begin, end, &runs)) return false;
    add_extents(region, runs);
    uint64_t next = begin;
    for (const PageRun& r : runs) {
      if (r.begin != next) missing = std::min(missing, next);
      next = r.end;
    }
    if (next != end) missing = std::min(missing, next);
    return true;
  };
  bool known = true;
  for (const PageRun& g : *guards) {
    if (at < g.begin) known = read(at, g.begin) && known;
    at = g.end;
  }
  if (at < m.end) known = read(at, m.end) && known;
  if (!known) return unknown_memory(errno);
  if (missing == m.end) return {};
  const bool tail = region.present.empty() || region.present.back().end <= missing;
  const files::FileIdentity& id = file.identity;
  const bool beyond = id.inode == 0 || m.offset + (missing - m.begin) >= static_cast<uint64_t>(id.size);
  if (tail && beyond) return {};
  return Error{
      formatted("the program's memory {} ({}) cannot be read: its file has become shorter, or its disk fails",
                range(m.begin, m.end), m.path)};
}

// Makes a mapping, whose flags show whether mlockall(MCL_FUTURE) is in force.
class NewMapping {
 public:
  NewMapping() : at_(mmap(nullptr, kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)), refused_(errno) {}
  ~NewMapping() {
    if (at_ != MAP_FAILED) munmap(at_, kPage);
  }
  NewMapping(const NewMapping&) = delete;
  NewMapping& operator=(const NewMapping&) = delete;
  int locked_as(const std::vector<Mapping>& all) const {
    if (at_ == MAP_FAILED) return refused_ == EAGAIN ? MCL_FUTURE : 0;  // no more memory may be locked
    const uint64_t address = reinterpret_cast<uint64_t>(at_);
    for (const Mapping& m : all)
      if (m.begin <= address && address < m.end && m.has("lo"))
        return MCL_FUTURE | (m.has("lf") ? MCL_ONFAULT : 0);
    return 0;
  }

 private:
  void* const at_;
  const int refused_;
};

// Reading the flags of mappings walks all page tables, so one reading serves for a stop.
struct Look {
  std::vector<Mapping> all;
  int lock_future = 0;  // from NewMapping
};
Look look() {
  const NewMapping probe;
  Look seen{read_mappings_and_flags(), 0};
  seen.lock_future = probe.locked_as(seen.all);
  return seen;
}
Look seen_when_stopped;  // set by refusal_of_stopped_memory(), for examine_memory()

// Gives each mapping the flags of the mapping in `from` that contains it; false if there is none.
bool add_flags(std::vector<Mapping>& mappings, const std::vector<Mapping>& from) {
  auto with = from.begin();
  for (Mapping& m : mappings) {
    while (with != from.end() && with->end <= m.begin) ++with;
    if (with == from.end() || with->begin > m.begin || with->end < m.end || with->prot != m.prot)
      return false;
    m.flags = with->flags;
    m.protection_key = with->protection_key;
  }
  return true;
}

// The source of the mapping's unchanged pages. Null: the file is not there under its name, or is not the
// mapped one.
std::unique_ptr<restart::PageSource> pages_of_file(const MappedFile& mapped, uint64_t begin) {
  auto pages = std::make_unique<restart::FilePages>(mapped.path, begin, mapped.offset);
  if (pages->fd() < 0 || mapped.identity.inode == 0) return nullptr;
  const auto now = files::identify_file(pages->fd(), "");
  if (!now || !files::is_same_file(mapped.identity, *now) || !files::looks_the_same(mapped.identity, *now))
    return nullptr;
  return pages;
}

std::vector<restart::Extent> reserved;  // set by reserve_addresses(); START only

bool is_reserved(const restart::Region& r) {
  for (const auto& e : reserved)
    if (e.begin <= r.begin && r.end <= e.end) return true;
  return false;
}

// Whether the file of that name is the mapped one, as far as a sample of pages tells: another file system may
// be mounted over it, or an overlay may have copied it since.
bool shows(const MappedFile& file, const Mapping& m, const ReadableMemory& memory) {
  constexpr uint64_t kLooks = 16;
  const OpenedUp opened(m.begin, m.end, m.prot);
  restart::FilePages named(file.path, m.begin, m.offset);
  const auto size = static_cast<uint64_t>(file.identity.size);
  const uint64_t there = size > m.offset ? std::min(m.end - m.begin, size - m.offset) / kPage : 0;
  if (!opened.status() || named.fd() < 0 || there == 0) return false;
  for (uint64_t look = 0; look < kLooks; ++look) {
    const uint64_t page = m.begin + (there - 1) * look / (kLooks - 1) * kPage;
    const restart::Extent one{page, page + kPage};
    std::vector<iovec> bytes;
    if (!named.read({&one, 1}, &bytes)) return false;
    const void* const mapped = memory.copy(page, kPage);
    if (mapped == nullptr || memcmp(mapped, bytes[0].iov_base, kPage) != 0) return false;
  }
  return true;
}

// How a region is mapped until its contents are loaded. Memory with contents that the kernel never counted as
// committed is not counted now either.
struct Making {
  int prot, flags;
};
Making making(const restart::Region& r, const RegionState& s) {
  if (s.file && s.file->left_in_file) return {PROT_NONE, MAP_PRIVATE | MAP_NORESERVE};
  if (s.file) return {PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE};
  const bool counted = has_flag(s.flags, "ac");
  int flags = flags_for_mmap(s.flags);
  if (!counted && r.present.empty()) return {static_cast<int>(r.prot), flags};
  if (!counted && !has_flag(s.flags, "dp")) flags |= MAP_NORESERVE;
  return {PROT_READ | PROT_WRITE, flags};
}

Status decorate(const restart::Region& r, const RegionState& s) {
  if (Status done = advise_mapping(r.begin, r.end, s.flags); !done) return done;
  constexpr int kSetName = 0x53564d41, kAnonymousName = 0;  // PR_SET_VMA, Linux 5.17; for display only
  if (r.name.starts_with("[anon:") && r.name.size() > 7)
    prctl(kSetName, kAnonymousName, r.begin, r.end - r.begin, r.name.substr(6, r.name.size() - 7).c_str());
  return set_policy(r.begin, r.end, s.policy);
}

Status protect(const restart::Region& r) {
  if (mprotect(pointer(r.begin), r.end - r.begin, static_cast<int>(r.prot)) == 0) return {};
  return Error{formatted("cannot protect {}: {}", range(r.begin, r.end), errno_text(errno))};
}

Status lock_and_seal(const restart::Region& r, const RegionState& s) {
  if (has_flag(s.flags, "lo")) {
    const unsigned on_fault = has_flag(s.flags, "lf") ? MLOCK_ONFAULT : 0;
    const bool partly =
        r.prot == PROT_NONE || !s.guards.empty() || s.file.has_value();  // not all pages can be present
    if (syscall(SYS_mlock2, r.begin, r.end - r.begin, on_fault) != 0 && !(partly && errno == ENOMEM))
      return Error{
          formatted("cannot lock the memory that the program had locked (mlock): {}; raise ulimit -l",
                    errno_text(errno))};
  }
  if (has_flag(s.flags, "sl") && syscall(kSeal, r.begin, r.end - r.begin, 0) != 0)
    return Error{"cannot seal the memory that the program had sealed (mseal, Linux 6.10): " +
                 errno_text(errno)};
  return {};
}

// A shared mapping is made when its file has its contents again.
bool waits_for(const RegionState& s, const FileKeys& put_back) {
  return s.file && s.file->shared && put_back.count({s.file->identity.device, s.file->identity.inode}) != 0;
}

// A region's file mapping, guard pages and locks. False: the memory belongs to no file any more.
Result<bool> finish_region(const restart::Region& r, const RegionState& s, bool as_they_are) {
  bool belongs = true;
  if (s.file && s.file->left_in_file) {
    Status done = map_left_in_file(*s.file, r.begin, r.end, static_cast<int>(r.prot), as_they_are);
    if (done) done = decorate(r, s);
    if (!done) return done.error();
  } else if (s.file) {
    std::string why;
    const Remapped how =
        map_file_again(*s.file, r.begin, r.end, static_cast<int>(r.prot), s.flags, s.guards, &why);
    if (how == Remapped::kRefused) return Error{why};
    belongs = how == Remapped::kYes;
    if (Status done = belongs ? decorate(r, s) : protect(r); !done) return done.error();
  }
  for (const PageRun& g : s.guards)
    if (madvise(pointer(g.begin), g.end - g.begin, kGuardInstall) != 0)
      return Error{"cannot make the guard pages that the program has (MADV_GUARD_INSTALL, Linux 6.13): " +
                   errno_text(errno)};
  if (Status done = lock_and_seal(r, s); !done) return done.error();
  return belongs;
}

}  // namespace

std::string memory_refusal() {
  const std::vector<Mapping> mine = program_part(read_mappings());
  if (mine.empty()) return "cannot read /proc/self/maps, which tells where the program's memory is";
  for (const Mapping& m : mine)
    if (std::string line = file_refusal(m); !line.empty()) return line;
  return "";
}

std::string refusal_of_stopped_memory() {
  seen_when_stopped = look();
  const std::vector<Mapping> mine = program_part(seen_when_stopped.all);
  if (mine.empty()) return "cannot read /proc/self/smaps, which tells what the program's memory is";
  drop_what_is_not_mapped(seen_when_stopped.all);
  for (const Mapping& m : mine) {
    if (std::string line = file_refusal(m); !line.empty()) return line;
    if (std::string line = flags_refusal(m); !line.empty()) return line;
  }
  if (uses_protection_keys(seen_when_stopped.all))
    return "the program has allocated protection keys (pkey_alloc), which cannot be saved yet";
  return "";
}

Result<ProgramMemory> examine_memory(const std::function<bool(const MappedFile&)>& may_leave) {
  ProgramMemory memory;
  Look seen = std::exchange(seen_when_stopped, {});
  std::vector<Mapping> mine = program_part(read_mappings());
  if (mine.empty() || !add_flags(mine, seen.all)) {  // draining has enlarged the persistent heap since
    seen = look();
    mine = program_part(seen.all);
  }
  memory.state.lock_future = seen.lock_future;
  const ReadableMemory readable;
  for (const Mapping& m : mine) {
    restart::Region region{m.begin, m.end, static_cast<uint32_t>(m.prot), m.path, {}};
    RegionState state;
    state.begin = m.begin;
    state.end = m.end;
    state.flags = flags_to_keep(m);
    state.policy = policy_of(m.begin);
    Status done;
    if (is_anonymous(m)) {
      done = examine_anonymous(m, readable, region, &state.guards);
    } else {
      state.file = examine_file(m);
      if (may_be_left_in_file(*state.file, m.end - m.begin, seam::state()->began) && may_leave(*state.file) &&
          shows(*state.file, m, readable) && make_durable(*state.file)) {
        state.file->left_in_file = true;
        state.guards = pages_of(m.begin, m.end).guards;
      } else {
        done = examine_file_pages(m, *state.file, readable, region, &state.guards);
      }
    }
    if (!done) return done.error();
    memory.regions.push_back(std::move(region));
    memory.state.regions.push_back(std::move(state));
  }
  return memory;
}

uint64_t memory_bytes(const ProgramMemory& memory) {
  uint64_t bytes = 0;
  for (const restart::Region& region : memory.regions)
    for (const auto& extent : region.present) bytes += extent.end - extent.begin;
  return bytes;
}

std::set<std::string> files_with_code(const MemoryState& state) {
  std::set<std::string> paths;
  for (const RegionState& s : state.regions)
    if (s.file && s.file->executable) paths.insert(s.file->path);
  return paths;
}

Status cut_memory(const ProgramMemory& memory, const std::function<bool(const MappedFile&)>& may_refer,
                  restart::ChunkSink& sink) {
  restart::LivePages live;
  for (size_t i = 0; i < memory.regions.size(); ++i) {
    const restart::Region& region = memory.regions[i];
    const RegionState& state = memory.state.regions[i];
    const OpenedUp opened(region.begin, region.end,
                          region.present.empty() ? PROT_READ : static_cast<int>(region.prot));
    if (!opened.status()) return opened.status();
    if (!state.file) {
      if (Status cut = restart::cut_region(region, live, nullptr, sink); !cut) return cut;
      continue;
    }
    restart::FragilePages source(region.name);
    std::unique_ptr<restart::PageSource> original;
    if (may_refer(*state.file)) original = pages_of_file(*state.file, region.begin);
    if (Status cut = restart::cut_region(region, source, original.get(), sink); !cut) return cut;
  }
  return {};
}

namespace {
bool is_a_librarys(const restart::Region& r) { return r.kind != restart::RegionKind::kHostMemory; }
}  // namespace

Status reserve_addresses(const restart::ImageReader& image) {
  for (const auto& r : image.regions()) {
    if (seam::in_window(r.begin) || is_a_librarys(r)) continue;
    void* p = mmap(pointer(r.begin), r.end - r.begin, PROT_NONE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    if (p == pointer(r.begin)) {
      reserved.push_back({r.begin, r.end});
      continue;
    }
    release_addresses();
    return Error{formatted("the program's addresses {} are taken in this process", range(r.begin, r.end))};
  }
  return {};
}

Status map_memory(const restart::ImageReader& image, const MemoryState& state) {
  const auto& regions = image.regions();
  for (const auto& r : regions)
    if (!is_a_librarys(r) && state.of(r.begin, r.end) == nullptr)
      return Error{
          formatted("{}: its metadata says nothing of the memory {}", image.path(), range(r.begin, r.end))};
  for (size_t i = 0; i < regions.size(); ++i) {
    const auto& r = regions[i];
    if (is_a_librarys(r)) continue;
    const RegionState& s = *state.of(r.begin, r.end);
    const Making how = making(r, s);
    void* p = mmap(pointer(r.begin), r.end - r.begin, how.prot,
                   how.flags | MAP_ANONYMOUS | (is_reserved(r) ? MAP_FIXED : MAP_FIXED_NOREPLACE), -1, 0);
    Status done;
    if (p != pointer(r.begin)) {
      const int why = errno;
      done = Error{formatted(
          "the program's memory {}{}", range(r.begin, r.end),
          why == EEXIST ? " is taken in this process"
                        : formatted(" cannot be mapped: {}{}", errno_text(why),
                                    why == ENOMEM ? " (ulimit -v or -d, or too little memory)" : ""))};
    } else {
      done = decorate(r, s);
    }
    if (done) continue;
    for (size_t j = 0; j < i; ++j)
      if (!is_a_librarys(regions[j])) munmap(pointer(regions[j].begin), regions[j].end - regions[j].begin);
    if (p == pointer(r.begin)) munmap(p, r.end - r.begin);
    release_addresses();
    return done;
  }
  return {};
}

Status load_memory(const restart::ImageReader& image, const MemoryState& state) {
  for (size_t i = 0; i < image.regions().size(); ++i) {
    const auto& r = image.regions()[i];
    if (is_a_librarys(r)) {  // the library loads it, once no older version can be chosen
      if (Status whole = image.verify_region(i); !whole) {
        unmap_memory(image);
        return whole;
      }
      continue;
    }
    const RegionState& s = *state.of(r.begin, r.end);
    Status done = image.load_region(i);
    if (done && !s.file && making(r, s).prot != static_cast<int>(r.prot)) done = protect(r);
    if (done) continue;
    unmap_memory(image);
    return done;
  }
  return {};
}

Status load_references(const restart::ImageReader& image, const MemoryState& state, bool as_they_are,
                       const FileKeys& put_back) {
  for (const RegionState& s : state.regions) {
    if (!s.file || !s.file->left_in_file || waits_for(s, put_back)) continue;
    if (Status there = check_left_in_file(*s.file, s.end - s.begin, as_they_are); !there) {
      unmap_memory(image);
      return there;
    }
  }
  for (size_t i = 0; i < image.regions().size(); ++i) {
    const auto& r = image.regions()[i];
    if (r.referenced.empty()) continue;
    const RegionState& s = *state.of(r.begin, r.end);
    Status done;
    if (s.file) {
      restart::FilePages original(s.file->path, r.begin, s.file->offset);
      done = image.load_referenced(i, original);
    } else {
      done = Error{
          formatted("{}: its metadata names no file for the memory {}", image.path(), range(r.begin, r.end))};
    }
    if (done) continue;
    unmap_memory(image);
    return done;
  }
  return {};
}

void unmap_memory(const restart::ImageReader& image) {
  for (const auto& r : image.regions())
    if (!is_a_librarys(r)) munmap(pointer(r.begin), r.end - r.begin);
  release_addresses();
}

void release_addresses() {
  for (const auto& e : reserved) munmap(pointer(e.begin), e.end - e.begin);
  reserved.clear();
}

Status finish_memory(const restart::ImageReader& image, const MemoryState& state, bool as_they_are,
                     const FileKeys& put_back, std::vector<LateMapping>* late, std::string* note) {
  std::vector<std::string> gone;
  for (const auto& r : image.regions()) {
    if (is_a_librarys(r)) continue;
    const RegionState& s = *state.of(r.begin, r.end);
    if (waits_for(s, put_back)) {
      late->push_back({r, &s});
      continue;
    }
    const auto belongs = finish_region(r, s, as_they_are);
    if (!belongs) return belongs.error();
    if (!*belongs && std::find(gone.begin(), gone.end(), s.file->path) == gone.end())
      gone.push_back(s.file->path);
  }
  if (state.lock_future != 0 && mlockall(state.lock_future) != 0)
    return Error{
        formatted("cannot lock future memory as the program had asked for (mlockall): {}; raise ulimit -l",
                  errno_text(errno))};
  if (!gone.empty())
    *note = formatted(
        "{}{} the program had mapped {} gone or changed: the contents come from the image, the memory "
        "belongs to no file any more",
        gone.front(), gone.size() > 1 ? formatted(" and {} more files that", gone.size() - 1) : " that",
        gone.size() > 1 ? "are" : "is");
  return {};
}

Status finish_late_mappings(const std::vector<LateMapping>& late) {
  for (const LateMapping& one : late) {
    const auto belongs = finish_region(one.region, *one.state, false);
    if (!belongs) return belongs.error();
    if (!*belongs)
      return Error{formatted(
          "{}, which the program had mapped, shared and read-only, is not what it was at the checkpoint",
          one.state->file->path)};
  }
  return {};
}

}  // namespace cropdl::host_memory
