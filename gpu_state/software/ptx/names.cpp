#include "gpu_state/software/ptx/names.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "base/format.h"

namespace cropdl::ptx {

void Names::open() {
  scopes_.push_back({opened_, {}, {}});
  opened_++;
}

std::string Names::unique_of(std::string_view name) const {
  int number = scopes_.back().number;
  return number == 0 ? std::string(name) : formatted("{}.{}", name, number);
}

std::string Names::declare(std::string_view name, Kind kind, int vector) {
  std::string unique = unique_of(name);
  Name other;
  if (in_range(scopes_.back(), name, &other)) return "";
  bool is_new = scopes_.back().names.emplace(name, Name{kind, unique, vector}).second;
  return is_new ? unique : "";
}

std::string Names::declare_range(std::string_view prefix, int count) {
  if (overlaps(scopes_.back(), prefix, count)) return "";
  std::string unique = unique_of(prefix) + (scopes_.back().number == 0 ? "" : ".");
  bool is_new = scopes_.back().ranges.emplace(prefix, Range{unique, count}).second;
  return is_new ? unique : "";
}

// %r12 may belong to %r<13> and to %r1<3>.
bool Names::in_range(const Scope& scope, std::string_view name, Name* found) {
  for (size_t digits = 1; digits < name.size() && digits < 10; digits++) {
    std::string_view number = name.substr(name.size() - digits);
    if (number[0] < '0' || number[0] > '9') return false;
    if (number[0] == '0' && digits > 1) continue;
    auto range = scope.ranges.find(name.substr(0, name.size() - digits));
    if (range == scope.ranges.end()) continue;
    int value = 0;
    std::from_chars(number.data(), number.data() + number.size(), value);
    if (value >= range->second.count) continue;
    *found = {Kind::kRegister, range->second.unique + std::string(number), 1};
    return true;
  }
  return false;
}

// Whether the scope has names that start with prefix0 …
bool Names::overlaps(const Scope& scope, std::string_view prefix, int count) {
  Scope alone{0, {}, {}};
  alone.ranges.emplace(prefix, Range{"", count});
  Name found;
  for (auto at = scope.names.lower_bound(prefix); at != scope.names.end() && at->first.starts_with(prefix);
       ++at)
    if (in_range(alone, at->first, &found)) return true;
  // Of two such ranges, the one with the longer prefix starts at 0: either the name is in the other range, or
  // neither has it.
  if (count && in_range(scope, std::string(prefix) + "0", &found)) return true;
  for (auto at = scope.ranges.upper_bound(prefix); at != scope.ranges.end() && at->first.starts_with(prefix);
       ++at)
    if (at->second.count && in_range(alone, at->first + "0", &found)) return true;
  return false;
}

bool Names::find(std::string_view name, Name* found) const {
  for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
    if (auto at = scope->names.find(name); at != scope->names.end()) {
      *found = at->second;
      return true;
    }
    if (in_range(*scope, name, found)) return true;
  }
  return false;
}

bool is_special_register(std::string_view name) {
  // PTX ISA 9.0, "Special registers".
  constexpr std::array<std::string_view, 35> kNames = {"%tid",
                                                       "%ntid",
                                                       "%laneid",
                                                       "%warpid",
                                                       "%nwarpid",
                                                       "%ctaid",
                                                       "%nctaid",
                                                       "%smid",
                                                       "%nsmid",
                                                       "%gridid",
                                                       "%is_explicit_cluster",
                                                       "%clusterid",
                                                       "%nclusterid",
                                                       "%cluster_ctaid",
                                                       "%cluster_nctaid",
                                                       "%cluster_ctarank",
                                                       "%cluster_nctarank",
                                                       "%lanemask_eq",
                                                       "%lanemask_le",
                                                       "%lanemask_lt",
                                                       "%lanemask_ge",
                                                       "%lanemask_gt",
                                                       "%clock",
                                                       "%clock_hi",
                                                       "%clock64",
                                                       "%globaltimer",
                                                       "%globaltimer_lo",
                                                       "%globaltimer_hi",
                                                       "%reserved_smem_offset_begin",
                                                       "%reserved_smem_offset_end",
                                                       "%reserved_smem_offset_cap",
                                                       "%total_smem_size",
                                                       "%aggr_smem_size",
                                                       "%dynamic_smem_size",
                                                       "%current_graph_exec"};
  if (std::find(kNames.begin(), kNames.end(), name) != kNames.end()) return true;
  for (std::string_view numbered : {"%pm", "%envreg", "%reserved_smem_offset_"})
    if (name.starts_with(numbered) && name.size() > numbered.size() && name[numbered.size()] >= '0' &&
        name[numbered.size()] <= '9')
      return true;
  return false;
}

}  // namespace cropdl::ptx
