#include "restart/memory/restore_memory.h"

#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <span>
#include <utility>

#include "base/format.h"
#include "interpose/seam/layout.h"
#include "restart/memory/mapped_files.h"
#include "restart/page_sources.h"

namespace cropdl::host_memory {
namespace {

constexpr int kGuardInstall = 102;  // MADV_GUARD_INSTALL, Linux 6.13
constexpr long kSeal = 462;         // mseal(2), Linux 6.10

bool is_a_librarys(const restart::Region& r) { return r.kind != restart::RegionKind::kHostMemory; }

// Protection and flags with which a region is mapped until it is loaded. Contents that the kernel never
// counted as committed are not now.
std::pair<int, int> making(const restart::Region& r, const RegionState& s) {
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
  return Error{"cannot protect {}: {}", range(r.begin, r.end), errno_text(errno)};
}

Status lock_and_seal(const restart::Region& r, const RegionState& s) {
  if (has_flag(s.flags, "lo")) {
    const unsigned on_fault = has_flag(s.flags, "lf") ? MLOCK_ONFAULT : 0;
    const bool partly =
        r.prot == PROT_NONE || !s.guards.empty() || s.file.has_value();  // not all pages can be present
    if (syscall(SYS_mlock2, r.begin, r.end - r.begin, on_fault) != 0 && !(partly && errno == ENOMEM))
      return Error{"cannot lock the memory that the program had locked (mlock): {}; raise ulimit -l",
                   errno_text(errno)};
  }
  if (has_flag(s.flags, "sl") && syscall(kSeal, r.begin, r.end - r.begin, 0) != 0)
    return Error{"cannot seal the memory that the program had sealed (mseal, Linux 6.10): " +
                 errno_text(errno)};
  return {};
}

// A shared mapping is made when its file has its contents again.
bool waits_for(const RegionState& s, const files::FilesPutBack& put_back) {
  return s.file && s.file->shared && put_back.count({s.file->identity.device, s.file->identity.inode}) != 0;
}

void unmap(std::span<const restart::Region> regions) {
  for (const auto& r : regions)
    if (!is_a_librarys(r)) munmap(pointer(r.begin), r.end - r.begin);
}

// A region's file mapping, guard pages and locks. False: the memory belongs to no file any more.
Result<bool> finish_region(const restart::Region& r, const RegionState& s, bool as_they_are) {
  const int prot = static_cast<int>(r.prot);
  bool belongs = true;
  Status done;
  if (s.file && s.file->left_in_file)
    done = map_left_in_file(s, prot, as_they_are);
  else if (s.file)
    done = map_file_again(s, prot).move_to(belongs);
  if (done && s.file) done = belongs ? decorate(r, s) : protect(r);
  if (!done) return done.error();
  for (const PageRun& g : s.guards)
    if (madvise(pointer(g.begin), g.end - g.begin, kGuardInstall) != 0)
      return Error{"cannot make the guard pages that the program has (MADV_GUARD_INSTALL, Linux 6.13): " +
                   errno_text(errno)};
  if (done = lock_and_seal(r, s); !done) return done.error();
  return belongs;
}

}  // namespace

Status ReservedAddresses::reserve(const restart::ImageReader& image) {
  for (const auto& r : image.regions()) {
    if (seam::in_window(r.begin) || is_a_librarys(r)) continue;
    void* p = mmap(pointer(r.begin), r.end - r.begin, PROT_NONE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    if (p == pointer(r.begin)) {
      extents_.push_back({r.begin, r.end});
      continue;
    }
    release();
    return Error{"the program's addresses {} are taken in this process", range(r.begin, r.end)};
  }
  return {};
}

bool ReservedAddresses::hold(const restart::Region& r) const {
  return std::any_of(extents_.begin(), extents_.end(),
                     [&r](const restart::Extent& e) { return e.begin <= r.begin && r.end <= e.end; });
}

void ReservedAddresses::release() {
  for (const auto& e : extents_) munmap(pointer(e.begin), e.end - e.begin);
  extents_.clear();
}

Status map_memory(const restart::ImageReader& image, const MemoryState& state, ReservedAddresses& reserved) {
  const std::span<const restart::Region> regions = image.regions();
  for (const auto& r : regions)
    if (!is_a_librarys(r) && state.of(r.begin, r.end) == nullptr)
      return Error{"{}: its metadata says nothing of the memory {}", image.path(), range(r.begin, r.end)};
  for (size_t i = 0; i < regions.size(); ++i) {
    const auto& r = regions[i];
    if (is_a_librarys(r)) continue;
    const RegionState& s = *state.of(r.begin, r.end);
    const auto [prot, flags] = making(r, s);
    const bool mapped = mmap(pointer(r.begin), r.end - r.begin, prot,
                             flags | MAP_ANONYMOUS | (reserved.hold(r) ? MAP_FIXED : MAP_FIXED_NOREPLACE), -1,
                             0) == pointer(r.begin);
    const int why = errno;
    Status done =
        mapped ? decorate(r, s)
               : Error{"the program's memory {}{}", range(r.begin, r.end),
                       why == EEXIST
                           ? " is taken in this process"
                           : formatted(" cannot be mapped: {}{}", errno_text(why),
                                       why == ENOMEM ? " (ulimit -v or -d, or too little memory)" : "")};
    if (done) continue;
    unmap(regions.first(mapped ? i + 1 : i));
    reserved.release();
    return done;
  }
  return {};
}

Status load_memory(const restart::ImageReader& image, const MemoryState& state) {
  for (size_t i = 0; i < image.regions().size(); ++i) {
    const auto& r = image.regions()[i];
    if (is_a_librarys(r)) {  // the library loads it, once no older version can be chosen
      if (Status whole = image.verify_region(i); !whole) return whole;
      continue;
    }
    const RegionState& s = *state.of(r.begin, r.end);
    Status done = image.load_region(i);
    if (done && !s.file && making(r, s).first != static_cast<int>(r.prot)) done = protect(r);
    if (!done) return done;
  }
  return {};
}

Status load_references(const restart::ImageReader& image, const MemoryState& state, bool as_they_are,
                       const files::FilesPutBack& put_back) {
  for (const RegionState& s : state.regions) {
    if (!s.file || !s.file->left_in_file || waits_for(s, put_back)) continue;
    if (Status there = check_left_in_file(*s.file, s.end - s.begin, as_they_are); !there) return there;
  }
  for (size_t i = 0; i < image.regions().size(); ++i) {
    const auto& r = image.regions()[i];
    if (r.referenced.empty()) continue;
    const RegionState& s = *state.of(r.begin, r.end);
    if (!s.file)
      return Error{"{}: its metadata names no file for the memory {}", image.path(), range(r.begin, r.end)};
    restart::FilePages original(s.file->path, r.begin, s.file->offset);
    if (Status done = image.load_referenced(i, original); !done) return done;
  }
  return {};
}

void unmap_memory(const restart::ImageReader& image, ReservedAddresses& reserved) {
  unmap(image.regions());
  reserved.release();
}

Status finish_memory(const restart::ImageReader& image, const MemoryState& state, bool as_they_are,
                     const files::FilesPutBack& put_back, std::vector<LateMapping>* late, std::string* note) {
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
    return Error{"cannot lock future memory as the program had asked for (mlockall): {}; raise ulimit -l",
                 errno_text(errno)};
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
      return Error{
          "{}, which the program had mapped, shared and read-only, is not what it was at the checkpoint",
          one.state->file->path};
  }
  return {};
}

}  // namespace cropdl::host_memory
