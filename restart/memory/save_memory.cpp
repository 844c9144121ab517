#include "restart/memory/save_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "base/page.h"
#include "interpose/seam/extents.h"
#include "interpose/seam/state.h"
#include "restart/memory/mapped_files.h"
#include "restart/page_sources.h"

namespace cropdl::host_memory {
namespace {

void let_run() { usleep(20); }

// What the program placed outside of the window, unordered. In an image of an older core entries may overlap.
std::vector<seam::OutsideExtent> extents_outside() {
  const seam::Extents table(seam::state(), let_run);
  std::vector<seam::OutsideExtent> all;
  for (uint32_t i = 0; i < table.size(); ++i)
    if (table[i].end != 0) all.push_back(table[i]);
  return all;
}

// Where the program may have memory, ascending, and none touches the next: the window except the control
// page, addresses below 4 GiB (a non-PIE program), and what it placed elsewhere itself.
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

// The program's part of all mappings, which are ascending: the kernel merges adjacent ones, also with the
// LH's.
std::vector<Mapping> program_part(const std::vector<Mapping>& all) {
  std::vector<Mapping> mine;
  const std::vector<seam::OutsideExtent> ranges = program_ranges();
  auto range = ranges.begin();
  for (const Mapping& m : all) {
    if (m.path == "[vsyscall]" || m.path.starts_with("[vvar") || m.path == "[vdso]") continue;
    while (range != ranges.end() && range->end <= m.begin) ++range;
    for (auto r = range; r != ranges.end() && r->begin < m.end; ++r) {
      Mapping& part = mine.emplace_back(m);
      part.begin = std::max(m.begin, r->begin);
      part.end = std::min(m.end, r->end);
      part.offset += part.begin - m.begin;
    }
  }
  return mine;
}

// Drops extents that are not mapped from the table of what the program placed elsewhere. `all` has every
// mapping. If the table has too few entries for all parts, it stays unchanged.
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

Error unknown_memory(int why) {
  return {"cannot find out which memory is readable: {}{}", errno_text(why),
          why == EFBIG ? " (the program's hard limit of file sizes, RLIMIT_FSIZE)" : ""};
}

// Makes memory readable while the object exists: memory under PROT_NONE is saved, too.
class OpenedUp {
 public:
  OpenedUp(uint64_t begin, uint64_t end, int prot) : begin_(begin), end_(end), prot_(prot) {
    if ((prot & PROT_READ) != 0) return;
    changed_ = mprotect(pointer(begin), end - begin, prot | PROT_READ) == 0;
    if (!changed_)
      status_ = Error{"cannot read the program's memory {}: {}", range(begin, end), errno_text(errno)};
  }
  ~OpenedUp() {
    if (changed_) mprotect(pointer(begin_), end_ - begin_, prot_);
  }
  OpenedUp(const OpenedUp&) = delete;
  OpenedUp& operator=(const OpenedUp&) = delete;
  const Status& status() const { return status_; }

 private:
  const uint64_t begin_, end_;
  const int prot_;
  bool changed_ = false;
  Status status_;
};

// A page neither present nor known to be a guard is swapped out. If it cannot be read, no image is right.
Status examine_anonymous(const Mapping& m, const ReadableMemory& memory, restart::Region& region,
                         std::vector<PageRun>* guards) {
  Pages pages = pages_of(m.begin, m.end);
  region.present = std::move(pages.present);
  *guards = std::move(pages.guards);
  if (pages.unclear.empty()) return {};
  const OpenedUp opened(m.begin, m.end, m.prot);
  if (!opened.status()) return opened.status();
  if (!memory) return unknown_memory(errno);
  for (const PageRun& r : pages.unclear) {
    if (memory.probe(r.begin, r.end) != r.end)
      return Error{
          "the program's memory at {} cannot be read: guard pages (MADV_GUARD_INSTALL) of a kernel "
          "that does not tell them from others, or broken memory",
          range(r.begin, r.end)};
    region.present.push_back(r);
  }
  std::sort(region.present.begin(), region.present.end(), [](auto& a, auto& b) { return a.begin < b.begin; });
  return {};
}

// A file's pages exist up to its end, in memory or not. Pages that cannot be read must be beyond the end.
Status examine_file_pages(const Mapping& m, const MappedFile& file, const ReadableMemory& memory,
                          restart::Region& region, RegionState* state) {
  const bool has_own_pages = !file.shared && file.identity.inode != 0;
  Pages pages = pages_of(m.begin, m.end, has_own_pages ? FindCopies::kYes : FindCopies::kNo);
  if (!pages.copies.empty() && may_be_on_dax(file)) pages.copies.clear();
  const std::vector<PageRun>& guards = state->guards = std::move(pages.guards);
  state->copies = std::move(pages.copies);
  const OpenedUp opened(m.begin, m.end, m.prot);
  if (!opened.status()) return opened.status();
  if (!memory) return unknown_memory(errno);
  uint64_t at = m.begin, missing = m.end;  // missing: the first page that cannot be read
  const auto read_up_to = [&](uint64_t end) {
    for (const PageRun& r : readable_pages(memory, at, end)) {
      if (r.begin != at) missing = std::min(missing, at);
      region.present.push_back(r);
      at = r.end;
    }
    if (at < end) missing = std::min(missing, at);
  };
  for (const PageRun& g : guards) {
    read_up_to(g.begin);
    at = g.end;
  }
  read_up_to(m.end);
  if (missing == m.end) return {};
  const bool tail = region.present.empty() || region.present.back().end <= missing;
  const files::FileIdentity& id = file.identity;
  const bool beyond = id.inode == 0 || m.offset + (missing - m.begin) >= static_cast<uint64_t>(id.size);
  if (tail && beyond) return {};
  return Error{"the program's memory {} ({}) cannot be read: its file has become shorter, or its disk fails",
               range(m.begin, m.end), m.path};
}

StoppedMemory look() {
  // The flags of a new mapping show whether mlockall(MCL_FUTURE) is in force.
  void* const at = mmap(nullptr, kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  const bool refused = at == MAP_FAILED && errno == EAGAIN;  // no more memory may be locked
  const auto unmap = [](void* page) { munmap(page, kPage); };
  const std::unique_ptr<void, decltype(unmap)> probe(at != MAP_FAILED ? at : nullptr, unmap);
  StoppedMemory seen{read_mappings_and_flags(), refused ? MCL_FUTURE : 0};
  const auto address = reinterpret_cast<uint64_t>(probe.get());
  for (const Mapping& m : seen.all)
    if (probe && m.begin <= address && address < m.end && m.has("lo"))
      seen.lock_future = MCL_FUTURE | (m.has("lf") ? MCL_ONFAULT : 0);
  return seen;
}

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

// The source of the mapping's unchanged pages. Null: the file of that name is not the mapped one.
std::unique_ptr<restart::PageSource> pages_of_file(const MappedFile& mapped, uint64_t begin) {
  auto pages = std::make_unique<restart::FilePages>(mapped.path, begin, mapped.offset);
  if (pages->fd() < 0 || mapped.identity.inode == 0) return nullptr;
  const auto now = files::identify_file(pages->fd(), "");
  if (!now || !files::is_same_file(mapped.identity, *now) || !files::looks_the_same(mapped.identity, *now))
    return nullptr;
  return pages;
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
    const PageRun one{page, page + kPage};
    std::vector<iovec> bytes;
    if (!named.read({&one, 1}, &bytes)) return false;
    const void* const mapped = memory.copy(page, kPage);
    if (mapped == nullptr || memcmp(mapped, bytes[0].iov_base, kPage) != 0) return false;
  }
  return true;
}

}  // namespace

std::string memory_refusal() {
  for (const Mapping& m : program_part(read_mappings()))
    if (std::string line = file_refusal(m); !line.empty()) return line;
  return "";
}

Result<StoppedMemory> look_at_stopped_memory() {
  StoppedMemory seen = look();
  const std::vector<Mapping> mine = program_part(seen.all);
  if (mine.empty()) return Error{"cannot read /proc/self/smaps, which tells what the program's memory is"};
  drop_what_is_not_mapped(seen.all);
  for (const Mapping& m : mine) {
    if (std::string line = file_refusal(m); !line.empty()) return Error{line};
    if (std::string line = flags_refusal(m); !line.empty()) return Error{line};
  }
  if (uses_protection_keys(seen.all))
    return Error{"the program has allocated protection keys (pkey_alloc), which cannot be saved yet"};
  return seen;
}

Result<ProgramMemory> examine_memory(StoppedMemory seen,
                                     const std::function<bool(const MappedFile&)>& may_leave) {
  ProgramMemory memory;
  std::vector<Mapping> mine = program_part(read_mappings());
  if (mine.empty() || !add_flags(mine, seen.all)) {  // draining has enlarged the persistent heap since
    seen = look();
    mine = program_part(seen.all);
  }
  memory.state.lock_future = seen.lock_future;
  const ReadableMemory readable;
  for (const Mapping& m : mine) {
    restart::Region region{m.begin, m.end, static_cast<uint32_t>(m.prot), m.path, {}};
    RegionState state{m.begin, m.end, flags_to_keep(m), {}, {}, {}, policy_of(m.begin)};
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
        done = examine_file_pages(m, *state.file, readable, region, &state);
      }
    }
    if (!done) return done.error();
    memory.regions.push_back(std::move(region));
    memory.state.regions.push_back(std::move(state));
  }
  return memory;
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
    std::unique_ptr<restart::PageSource> fragile, original;
    if (state.file) fragile = std::make_unique<restart::FragilePages>(region.name);
    if (state.file && may_refer(*state.file)) original = pages_of_file(*state.file, region.begin);
    restart::PageSource& source = fragile ? *fragile : live;
    if (Status cut = restart::cut_region(region, source, original.get(), sink); !cut) return cut;
  }
  return {};
}

}  // namespace cropdl::host_memory
