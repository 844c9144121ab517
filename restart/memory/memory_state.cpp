#include "restart/memory/memory_state.h"

#include <cpuid.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string_view>

#include "base/format.h"
#include "base/json.h"
#include "base/page.h"

namespace cropdl::host_memory {

using nlohmann::json;

template <class Visit>
void list_members(MappedFile& f, Visit&& member) {  // base/json.h
  member("path", f.path);
  member("shared", f.shared);
  member("offset", f.offset);
  member("identity", f.identity);
}

namespace {

enum What {
  kFollows,  // restored by mapping, protection and use
  kKept,     // saved; restored by madvise(2), or in another way (restore_memory.cpp)
  kRefused,
};

constexpr unsigned long kNodes = 1024;   // MAX_NUMNODES of x86-64 kernels, the largest configurable
constexpr unsigned long kOfAddress = 2;  // MPOL_F_ADDR

struct Flag {
  std::string_view names;
  What what;
  int advice;         // 0: none
  const char* words;  // name in a refusal, or meaning
};

// From Documentation/filesystems/proc.rst and show_smap_vma_flags() of fs/proc/task_mmu.c, Linux 6.18.
// Kernels write "??" for a flag without a name, and protection keys in a line of their own.
constexpr Flag kFlags[] = {
    {"rd wr ex", kFollows, 0, "readable, writable, executable"},
    {"mr mw me", kFollows, 0, "may be made so"},
    {"ms", kFollows, 0, "shared"},
    {"sh", kFollows, 0, "shared and writable: refused as a shared mapping"},
    {"sd", kFollows, 0, "soft-dirty: who asks for it clears it first"},
    {"ac", kKept, 0, "counts as committed memory"},
    {"gu", kFollows, 0, "may have guard pages, which are found page by page"},
    {"nr", kKept, 0, "MAP_NORESERVE"},
    {"gd", kKept, 0, "MAP_GROWSDOWN"},
    {"dp", kKept, 0, "MAP_DROPPABLE"},
    {"lo", kKept, 0, "mlock"},
    {"lf", kKept, 0, "mlock2 with MLOCK_ONFAULT"},
    {"sl", kKept, 0, "mseal"},
    {"sr", kKept, MADV_SEQUENTIAL, "MADV_SEQUENTIAL"},
    {"rr", kKept, MADV_RANDOM, "MADV_RANDOM"},
    {"dc", kKept, MADV_DONTFORK, "MADV_DONTFORK"},
    {"wf", kKept, MADV_WIPEONFORK, "MADV_WIPEONFORK"},
    {"dd", kKept, MADV_DONTDUMP, "MADV_DONTDUMP"},
    {"hg", kKept, MADV_HUGEPAGE, "MADV_HUGEPAGE"},
    {"nh", kKept, MADV_NOHUGEPAGE, "MADV_NOHUGEPAGE"},
    {"mg", kKept, MADV_MERGEABLE, "MADV_MERGEABLE"},
    {"pf io mm ar", kRefused, 0, "memory of a device"},
    {"de", kRefused, 0, "memory that a driver or the kernel keeps (asynchronous I/O, perf events)"},
    {"ht", kRefused, 0, "huge pages of hugetlbfs (MAP_HUGETLB)"},
    {"sf", kRefused, 0, "persistent memory (MAP_SYNC)"},
    {"um uw ui", kRefused, 0, "memory under userfaultfd"},
    {"ss", kRefused, 0, "a shadow stack"},
    {"bt", kRefused, 0, "memory with guarded branch targets (PROT_BTI)"},
    {"mt", kRefused, 0, "memory with tags"},
};

const Flag* find(const char* name) {
  for (const Flag& flag : kFlags)
    if (has_flag(flag.names, name)) return &flag;
  return nullptr;
}

// Calls visit(name, flag) for each; null: unknown.
template <class Visit>
void each_flag(const std::string& flags, Visit visit) {
  for (size_t i = 0; i + 1 < flags.size(); i += 3) visit(flags.data() + i, find(flags.data() + i));
}

// Numbers of pages, none and copies by turns, from the region's begin: there may be millions of runs.
json copies_json(const RegionState& r) {
  json turns = json::array();
  uint64_t at = r.begin;
  for (const PageRun& run : r.copies) {
    turns.push_back((run.begin - at) / kPage);
    turns.push_back((run.end - run.begin) / kPage);
    at = run.end;
  }
  return turns;
}

std::vector<PageRun> copies_from(const json& turns, uint64_t begin) {
  std::vector<PageRun> runs;
  uint64_t at = begin;
  for (size_t i = 0; i + 1 < turns.size(); i += 2) {
    const uint64_t from = at + integer_from_json<uint64_t>(turns[i]) * kPage;
    at = from + integer_from_json<uint64_t>(turns[i + 1]) * kPage;
    runs.push_back({from, at});
  }
  return runs;
}

}  // namespace

const RegionState* MemoryState::of(uint64_t begin, uint64_t end) const {
  const auto at = std::ranges::lower_bound(regions, begin, {}, &RegionState::begin);
  return at != regions.end() && at->begin == begin && at->end == end ? &*at : nullptr;
}

void to_json(json& j, const MemoryState& state) {
  json regions = json::array();
  for (const RegionState& r : state.regions) {
    json one{{"begin", r.begin}, {"end", r.end}, {"flags", r.flags}};
    if (r.file) one["file"] = *r.file;
    if (r.file && r.file->left_in_file) one["file"]["left_in_file"] = true;
    for (const PageRun& g : r.guards) one["guards"].push_back({g.begin, g.end});
    if (!r.copies.empty()) one["copies"] = copies_json(r);
    if (r.policy.mode != 0) one["policy"] = r.policy;
    regions.push_back(std::move(one));
  }
  j = {{"regions", std::move(regions)}, {"lock_future", state.lock_future}};
}

void from_json(const json& j, MemoryState& state) {
  state.lock_future = integer_from_json<int>(j.at("lock_future"));
  for (const json& one : j.at("regions")) {
    RegionState r;
    r.begin = integer_from_json<uint64_t>(one.at("begin"));
    r.end = integer_from_json<uint64_t>(one.at("end"));
    one.at("flags").get_to(r.flags);
    if (one.contains("file")) {
      r.file = one.at("file").get<MappedFile>();
      r.file->left_in_file = one.at("file").value("left_in_file", false);
    }
    if (one.contains("guards"))
      for (const json& g : one.at("guards"))
        r.guards.push_back({g.at(0).get<uint64_t>(), g.at(1).get<uint64_t>()});
    if (one.contains("copies")) r.copies = copies_from(one.at("copies"), r.begin);
    if (one.contains("policy")) one.at("policy").get_to(r.policy);
    state.regions.push_back(std::move(r));
  }
}

std::string flags_refusal(const Mapping& m) {
  std::string line;
  const auto place = [&m] {
    return " at " + range(m.begin, m.end) + (m.path.empty() ? "" : formatted(" ({})", m.path));
  };
  if (m.protection_key != 0 && m.prot != PROT_EXEC)  // the kernel itself gives PROT_EXEC a key
    return formatted("memory with a protection key (pkey_mprotect){} cannot be saved yet", place());
  if (m.flags.empty())
    return "this kernel does not tell the flags of mappings (VmFlags of /proc/self/smaps), so it is not "
           "known whether they can be saved";
  each_flag(m.flags, [&](const char* name, const Flag* flag) {
    if (!line.empty()) return;
    if (flag == nullptr)
      line =
          formatted("memory with the unknown flag '{}' in /proc/self/smaps{} cannot be saved by this CropDL",
                    std::string(name, 2), place());
    else if (flag->what == kRefused)
      line = formatted("{}{} cannot be saved yet", flag->words, place());
  });
  return line;
}

bool uses_protection_keys(const std::vector<Mapping>& mappings) {
  unsigned a = 0, b = 0, c = 0, d = 0;
  constexpr unsigned kEnabled = 1 << 4;  // OSPKE, Intel SDM 2, CPUID leaf 7
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0 || (c & kEnabled) == 0) return false;
  int in_use = 0;
  for (const Mapping& m : mappings)
    if (m.prot == PROT_EXEC && m.protection_key != 0) in_use = 1;
  constexpr int kKeys = 15;  // besides key 0
  int mine[kKeys], free = 0;
  while (free < kKeys && (mine[free] = pkey_alloc(0, PKEY_DISABLE_ACCESS)) > 0) ++free;
  for (int i = 0; i < free; ++i) pkey_free(mine[i]);
  return free + in_use < kKeys;
}

std::string flags_to_keep(const Mapping& m) {
  std::string kept;
  each_flag(m.flags, [&](const char* name, const Flag* flag) {
    if (flag != nullptr && flag->what == kKept) kept += std::string(name, 2) + " ";
  });
  return kept;
}

int flags_for_mmap(const std::string& kept) {
  constexpr int kDroppable = 8;  // MAP_DROPPABLE, Linux 6.11: a type beside private and shared
  int flags = has_flag(kept, "dp") ? kDroppable : MAP_PRIVATE;
  if (has_flag(kept, "gd")) flags |= MAP_GROWSDOWN;
  if (has_flag(kept, "nr") && !has_flag(kept, "dp")) flags |= MAP_NORESERVE;
  return flags;
}

Status advise_mapping(uint64_t begin, uint64_t end, const std::string& kept) {
  Status done;
  each_flag(kept, [&](const char*, const Flag* flag) {
    if (flag == nullptr || flag->advice == 0) return;
    if (has_flag(kept, "dp") && (flag->advice == MADV_WIPEONFORK || flag->advice == MADV_DONTDUMP))
      return;  // a MAP_DROPPABLE mapping has it anyway
    // The other advice only affects speed, and a kernel built without it returns EINVAL.
    const bool matters =
        flag->advice == MADV_DONTFORK || flag->advice == MADV_WIPEONFORK || flag->advice == MADV_DONTDUMP;
    if (madvise(reinterpret_cast<void*>(begin), end - begin, flag->advice) != 0 && matters)
      done = Error{"this kernel refuses {}, which the program uses: {}; restart on a kernel that has it",
                   flag->words, errno_text(errno)};
  });
  return done;
}

MemoryPolicy policy_of(uint64_t address) {
  MemoryPolicy p;
  p.nodes.resize(kNodes / 64);
  if (syscall(SYS_get_mempolicy, &p.mode, p.nodes.data(), kNodes, address, kOfAddress) != 0) return {};
  while (!p.nodes.empty() && p.nodes.back() == 0) p.nodes.pop_back();
  return p;
}

Status set_policy(uint64_t begin, uint64_t end, const MemoryPolicy& p) {
  if (p.mode == 0) return {};
  const size_t bits = p.nodes.empty() ? 0 : p.nodes.size() * 64 + 1;  // the kernel uses one bit less
  if (syscall(SYS_mbind, begin, end - begin, p.mode, p.nodes.data(), bits, 0) != 0)
    return Error{"cannot set the program's memory policy (NUMA nodes) on this machine: " + errno_text(errno)};
  return {};
}

}  // namespace cropdl::host_memory
