// Special registers (PTX ISA, "Special Registers"), and the addresses of a thread's local variables. Clusters
// have one block.
#include <ctime>
#include <map>

#include "gpu_state/software/engine/lower.h"

namespace cropdl::engine {

namespace {

enum Which : int {
  kTid,
  kTidY,
  kTidZ,
  kNtid,
  kNtidY,
  kNtidZ,
  kCtaid,
  kCtaidY,
  kCtaidZ,
  kNctaid,
  kNctaidY,
  kNctaidZ,
  kLane,
  kWarp,
  kWarps,
  kSm,
  kSms,
  kGrid,
  kMaskEq,
  kMaskLe,
  kMaskLt,
  kMaskGe,
  kMaskGt,
  kClock,
  kClockHigh,
  kClock64,
  kTimer,
  kTimerLow,
  kTimerHigh,
  kDynamicShared,
  kTotalShared,
  kWorkspaceHigh,
  kZero,
  kOne,
  kExplicitCluster
};

uint64_t nanoseconds(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1000000000u + static_cast<uint64_t>(now.tv_nsec);
}

uint64_t value_of(WarpRun& warp, int which, uint32_t lane) {
  const Block& block = *warp.block;
  const Grid& grid = *block.grid;
  switch (which) {
    case kTid:
    case kTidY:
    case kTidZ:
      return warp.thread[which - kTid][lane];
    case kNtid:
    case kNtidY:
    case kNtidZ:
      return grid.launch->block[which - kNtid];
    case kCtaid:
    case kCtaidY:
    case kCtaidZ:
      return block.at[which - kCtaid];
    case kNctaid:
    case kNctaidY:
    case kNctaidZ:
      return grid.launch->grid[which - kNctaid];
    case kLane:
      return lane;
    case kWarp:
      return warp.index;
    case kWarps:
      return 32;
    case kSm:
      return block.processor;
    case kSms:
      return static_cast<uint64_t>(grid.multiprocessors);
    case kGrid:
      return grid.number;
    case kMaskEq:
      return 1u << lane;
    case kMaskLe:
      return (2u << lane) - 1;
    case kMaskLt:
      return (1u << lane) - 1;
    case kMaskGe:
      return ~((1u << lane) - 1);
    case kMaskGt:
      return ~((2u << lane) - 1);
    case kClock:
      return static_cast<uint32_t>(nanoseconds(CLOCK_MONOTONIC));
    case kClockHigh:
      return nanoseconds(CLOCK_MONOTONIC) >> 32;
    case kClock64:
      return nanoseconds(CLOCK_MONOTONIC);
    case kTimer:
      return nanoseconds(CLOCK_REALTIME);
    case kTimerLow:
      return static_cast<uint32_t>(nanoseconds(CLOCK_REALTIME));
    case kTimerHigh:
      return nanoseconds(CLOCK_REALTIME) >> 32;
    case kDynamicShared:
      return grid.launch->dynamic_shared;
    case kTotalShared:
      return grid.shared_bytes;
    case kWorkspaceHigh:
      return grid.cooperative ? base_of(Window::kWorkspace) >> 32 : 0;
    case kOne:
      return 1;
    case kExplicitCluster:
      return grid.kernel->is_explicit_cluster;
    default:
      return 0;
  }
}

const std::map<std::string_view, Special>& table() {
  static const std::map<std::string_view, Special> kTable = {
      {"%tid.x", {kTid}},
      {"%tid.y", {kTidY}},
      {"%tid.z", {kTidZ}},
      {"%tid.w", {kZero}},
      {"%ntid.x", {kNtid}},
      {"%ntid.y", {kNtidY}},
      {"%ntid.z", {kNtidZ}},
      {"%ntid.w", {kZero}},
      {"%ctaid.x", {kCtaid}},
      {"%ctaid.y", {kCtaidY}},
      {"%ctaid.z", {kCtaidZ}},
      {"%ctaid.w", {kZero}},
      {"%nctaid.x", {kNctaid}},
      {"%nctaid.y", {kNctaidY}},
      {"%nctaid.z", {kNctaidZ}},
      {"%nctaid.w", {kZero}},
      {"%laneid", {kLane}},
      {"%warpid", {kWarp}},
      {"%nwarpid", {kWarps}},
      {"%smid", {kSm}},
      {"%nsmid", {kSms}},
      {"%gridid", {kGrid, 8}},
      {"%lanemask_eq", {kMaskEq}},
      {"%lanemask_le", {kMaskLe}},
      {"%lanemask_lt", {kMaskLt}},
      {"%lanemask_ge", {kMaskGe}},
      {"%lanemask_gt", {kMaskGt}},
      {"%clock", {kClock}},
      {"%clock_hi", {kClockHigh}},
      {"%clock64", {kClock64, 8}},
      {"%globaltimer", {kTimer, 8}},
      {"%globaltimer_lo", {kTimerLow}},
      {"%globaltimer_hi", {kTimerHigh}},
      {"%dynamic_smem_size", {kDynamicShared}},
      {"%total_smem_size", {kTotalShared}},
      {"%aggr_smem_size", {kTotalShared}},
      {"%reserved_smem_offset_begin", {kZero}},
      {"%reserved_smem_offset_end", {kZero}},
      {"%reserved_smem_offset_cap", {kZero}},
      // cooperative_groups: the grid's workspace is at envreg1 << 32 | envreg2 (cooperative_groups.h of CUDA
      // 13).
      {"%envreg1", {kWorkspaceHigh}},
      {"%envreg2", {kZero}},
      {"%is_explicit_cluster", {kExplicitCluster, 0}},
      {"%cluster_ctaid.x", {kZero}},
      {"%cluster_ctaid.y", {kZero}},
      {"%cluster_ctaid.z", {kZero}},
      {"%cluster_ctaid.w", {kZero}},
      {"%cluster_nctaid.x", {kOne}},
      {"%cluster_nctaid.y", {kOne}},
      {"%cluster_nctaid.z", {kOne}},
      {"%cluster_nctaid.w", {kZero}},
      {"%cluster_ctarank", {kZero}},
      {"%cluster_nctarank", {kOne}},
      {"%clusterid.x", {kCtaid}},
      {"%clusterid.y", {kCtaidY}},
      {"%clusterid.z", {kCtaidZ}},
      {"%clusterid.w", {kZero}},
      {"%nclusterid.x", {kNctaid}},
      {"%nclusterid.y", {kNctaidY}},
      {"%nclusterid.z", {kNctaidZ}},
      {"%nclusterid.w", {kZero}},
  };
  return kTable;
}

}  // namespace

std::optional<Special> find_special(std::string_view name) {
  if (name == "WARP_SZ") return std::nullopt;
  auto found = table().find(name);
  if (found == table().end()) return std::nullopt;
  return found->second;
}

void read_special(Warp& base, const Instruction& in, uint32_t active) {
  WarpRun& warp = static_cast<WarpRun&>(base);
  const int which = static_cast<int>(in.immediate);
  if (in.extra == 0) {
    uint32_t& to = warp.predicate(in.operands[0]);
    to = value_of(warp, which, 0) ? to | active : to & ~active;
    return;
  }
  const bool per_lane = which <= kTidZ || which == kLane || (which >= kMaskEq && which <= kMaskGt);
  uint64_t value = per_lane ? 0 : value_of(warp, which, 0);
  for (uint32_t l = 0; l < kLanes; ++l) {
    if (!(active >> l & 1)) continue;
    if (per_lane) value = value_of(warp, which, l);
    if (in.extra == 8)
      warp.lanes<uint64_t>(in.operands[0])[l] = value;
    else if (in.extra == 4)
      warp.lanes<uint32_t>(in.operands[0])[l] = static_cast<uint32_t>(value);
    else
      warp.lanes<uint16_t>(in.operands[0])[l] = static_cast<uint16_t>(value);
  }
}

void read_local_address(Warp& base, const Instruction& in, uint32_t active) {
  WarpRun& warp = static_cast<WarpRun&>(base);
  uint64_t value = warp.current->local_base + static_cast<uint64_t>(in.immediate);
  for (uint32_t l = 0; l < kLanes; ++l) {
    if (!(active >> l & 1)) continue;
    if (in.extra == 8)
      warp.lanes<uint64_t>(in.operands[0])[l] = value;
    else
      warp.lanes<uint32_t>(in.operands[0])[l] = static_cast<uint32_t>(value);
  }
}

}  // namespace cropdl::engine
