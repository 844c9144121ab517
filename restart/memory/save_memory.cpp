#include "restart/memory/save_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "base/page.h"
#include "interpose/seam/state.h"
#include "restart/memory/mapping_flags.h"
#include "restart/memory/program_mappings.h"
#include "restart/page_sources.h"

namespace cropdl::host_memory {
namespace {

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
    error_ = changed_ ? 0 : errno;
  }
  ~OpenedUp() {
    if (changed_) mprotect(pointer(begin_), end_ - begin_, prot_);
  }
  OpenedUp(const OpenedUp&) = delete;
  OpenedUp& operator=(const OpenedUp&) = delete;
  Status status() const {
    if (error_ == 0) return {};
    return Error{"cannot read the program's memory {}: {}", range(begin_, end_), errno_text(error_)};
  }

 private:
  const uint64_t begin_, end_;
  const int prot_;
  bool changed_ = false;
  int error_ = 0;
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
  for (const PageRun& r : pages.unclear) {
    std::vector<PageRun> readable;
    if (!readable_pages(memory, r.begin, r.end, &readable)) return unknown_memory(errno);
    if (readable != std::vector<PageRun>{r})
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
  uint64_t at = m.begin, missing = m.end;
  const auto read = [&](uint64_t begin, uint64_t end) {
    std::vector<PageRun> runs;
    if (!readable_pages(memory, begin, end, &runs)) return false;
    region.present.insert(region.present.end(), runs.begin(), runs.end());
    uint64_t next = begin;
    for (const PageRun& r : runs) {
      if (r.begin != next) missing = std::min(missing, next);
      next = r.end;
    }
    if (next != end) missing = std::min(missing, next);
    return true;
  };
  bool known = true;
  for (const PageRun& g : guards) {
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

std::string refusal_of_stopped_memory(StoppedMemory* seen) {
  *seen = look();
  const std::vector<Mapping> mine = program_part(seen->all);
  if (mine.empty()) return "cannot read /proc/self/smaps, which tells what the program's memory is";
  drop_what_is_not_mapped(seen->all);
  for (const Mapping& m : mine) {
    if (std::string line = file_refusal(m); !line.empty()) return line;
    if (std::string line = flags_refusal(m); !line.empty()) return line;
  }
  if (uses_protection_keys(seen->all))
    return "the program has allocated protection keys (pkey_alloc), which cannot be saved yet";
  return "";
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
        done = examine_file_pages(m, *state.file, readable, region, &state);
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
  for (const restart::Region& region : memory.regions) bytes += restart::bytes_of(region.present);
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

}  // namespace cropdl::host_memory
