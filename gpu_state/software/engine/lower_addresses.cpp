// Conversions of addresses between spaces, and instructions without visible effect: hints for caches and
// schedulers, and fences, which use the host's (PTX ISA, "cvta", "isspacep", "mapa", "prefetch", "membar,
// fence").
#include <atomic>

#include "base/format.h"
#include "gpu_state/software/engine/lower.h"

namespace cropdl::engine {

namespace {

template <class T>
void add_immediate(Warp& warp, const Instruction& in, uint32_t active) {
  T* to = warp.lanes<T>(in.operands[0]);
  const T* from = warp.lanes<T>(in.operands[1]);
  const T delta = static_cast<T>(in.immediate);
  if (active == kAllLanes)
    for (int l = 0; l < kLanes; ++l) to[l] = from[l] + delta;
  else
    for (int l = 0; l < kLanes; ++l)
      if (active >> l & 1) to[l] = from[l] + delta;
}

// immediate: the window's number; -1: global; -2: no address matches
void in_window(Warp& warp, const Instruction& in, uint32_t active) {
  const uint64_t* from = warp.lanes<uint64_t>(in.operands[1]);
  uint32_t there = 0;
  for (int l = 0; l < kLanes; ++l)
    there |= static_cast<uint32_t>(static_cast<int64_t>(from[l] >> kWindowShift) == in.immediate) << l;
  uint32_t& to = warp.predicate(in.operands[0]);
  to = (to & ~active) | (there & active);
}

// A cluster has one block: rank 0 is the block itself.
template <class T>
void map_address(Warp& base, const Instruction& in, uint32_t active) {
  WarpRun& warp = static_cast<WarpRun&>(base);
  T* to = warp.lanes<T>(in.operands[0]);
  const T* from = warp.lanes<T>(in.operands[1]);
  const uint32_t* rank = warp.lanes<uint32_t>(in.operands[2]);
  for (uint32_t l = 0; l < kLanes; ++l) {
    if (!(active >> l & 1)) continue;
    if (rank[l])
      return warp.fault(l, CUDA_ERROR_ILLEGAL_ADDRESS, rank[l], "the cluster has no block of rank");
    to[l] = from[l];
  }
}

void full_fence(Warp&, const Instruction&, uint32_t) { __atomic_thread_fence(__ATOMIC_SEQ_CST); }

}  // namespace

Lowering::Done Lowering::convert_address() {
  bool from_generic = !words_.empty() && words_[0] == "to";
  size_t space_at = from_generic ? 1 : 0;
  if (words_.size() != space_at + 2 || count() != 2) return bad_operands();
  std::string_view space = words_[space_at];
  uint64_t window = 0;
  if (space == "shared" || space == "shared::cta" || space == "shared::cluster")
    window = base_of(Window::kShared);
  else if (space == "local")
    window = base_of(Window::kLocal);
  else if (space == "param" || space == "param::entry")
    window = base_of(Window::kParameters);
  else if (space != "global" && space != "const")
    return std::nullopt;
  if (words_.back() != "u64") return std::nullopt;
  auto from = source(operand(1), 8);
  auto to = destination(operand(0), 8);
  if (!from || !to) return bad_operands();
  Draft& draft = emit(add_immediate<uint64_t>);
  draft.instruction.immediate = static_cast<int64_t>(from_generic ? -window : window);
  write(draft, 0, *to);
  read(draft, 1, *from);
  return Status{};
}

Lowering::Done Lowering::test_space() {
  if (words_.size() != 1 || count() != 2) return bad_operands();
  std::string_view space = words_[0];
  Window window = Window::kHost;
  if (space == "shared" || space == "shared::cta" || space == "shared::cluster")
    window = Window::kShared;
  else if (space == "local")
    window = Window::kLocal;
  else if (space == "param" || space == "param::entry")
    window = Window::kParameters;
  else if (space != "global")
    return std::nullopt;
  auto from = source(operand(1), 8);
  auto to = destination(operand(0), 0);
  if (!from || !to) return bad_operands();
  Draft& draft = emit(in_window);
  draft.instruction.immediate = static_cast<int64_t>(window);
  write(draft, 0, *to);
  read(draft, 1, *from);
  return Status{};
}

Lowering::Done Lowering::map_to_block() {
  if (!takes({" ?shared::cluster u32|u64"})) return std::nullopt;
  uint32_t bytes = has("u64") ? 8 : 4;
  bool is_rank = base_ == "getctarank";
  auto to = count() ? destination(operand(0), is_rank ? 4 : bytes) : std::nullopt;
  auto from = count() > 1 ? source(operand(1), bytes) : std::nullopt;
  if (!to || !from) return bad_operands();
  if (is_rank) {
    Draft& draft = emit(add_immediate<uint32_t>);
    write(draft, 0, *to);
    read(draft, 1, constant(4, 0));
    return Status{};
  }
  auto rank = count() == 3 ? source(operand(2), 4) : std::nullopt;
  if (!rank) return bad_operands();
  Draft& draft = emit(bytes == 8 ? map_address<uint64_t> : map_address<uint32_t>);
  write(draft, 0, *to);
  read(draft, 1, *from);
  read(draft, 2, *rank);
  return Status{};
}

Lowering::Done Lowering::fence() {
  const bool known =
      base_ == "membar"
          ? takes({" cta|gl|sys", "proxy.alias"})
          : takes({" ?sc|acq_rel|acquire|release cta|cluster|gpu|sys", "mbarrier_init release cluster",
                   "acquire sync_restrict::shared::cluster cluster",
                   "release sync_restrict::shared::cta cluster", "proxy alias|async",
                   "proxy.async global|shared::cta|shared::cluster",
                   "proxy.async::generic acquire sync_restrict::shared::cluster cluster",
                   "proxy.async::generic release sync_restrict::shared::cta cluster"});
  if (!known) return std::nullopt;
  if (count()) return bad_operands();
  emit(full_fence);
  return Status{};
}

Lowering::Done Lowering::addresses() {
  if (base_ == "cvta") return convert_address();
  if (base_ == "isspacep") return test_space();
  if (base_ == "mapa" || base_ == "getctarank") return map_to_block();
  if (base_ == "fence" || base_ == "membar") return fence();
  return hint();
}

// Instructions without visible effect: caches, priorities, and those that have no effect because grids of one
// stream run one after the other.
Lowering::Done Lowering::hint() {
  struct Form {
    std::string_view base, words;  // in the syntax of takes()
    size_t least, most;            // number of operands
    bool has_address;              // as first operand
  };
  static const Form kForms[] = {
      {"prefetch", " ?global|local L1|L2", 1, 1, true},
      {"prefetch", "global L2::evict_last|L2::evict_normal", 1, 1, true},
      {"prefetchu", " L1", 1, 1, true},
      {"applypriority", " ?global L2::evict_normal", 2, 2, true},
      {"discard", " ?global L2", 2, 2, true},
      {"pmevent", " ?mask", 1, 1, false},
      {"griddepcontrol", " launch_dependents|wait", 0, 0, false},
      {"setmaxnreg", " inc|dec sync aligned u32", 1, 1, false},
      {"createpolicy",
       "fractional L2::evict_last|L2::evict_normal|L2::evict_first|L2::evict_unchanged "
       "?L2::evict_first|L2::evict_unchanged b64",
       1, 2, false},
      {"createpolicy",
       "range ?global L2::evict_last|L2::evict_normal|L2::evict_first|L2::evict_unchanged "
       "?L2::evict_first|L2::evict_unchanged b64",
       4, 4, false},
      {"createpolicy", "cvt L2 b64", 2, 2, false}};
  for (const Form& form : kForms) {
    if (form.base != base_ || !takes({form.words})) continue;
    if (base_ == "setmaxnreg" && !around_.module->target.ends_with("a"))
      return error(formatted("it is of sm_90a alone, and the text is for {}", around_.module->target));
    if (count() < form.least || count() > form.most) return bad_operands();
    if (base_ == "createpolicy") {
      auto to = destination(operand(0), 8);
      if (!to) return bad_operands();
      Draft& draft = emit(add_immediate<uint64_t>);
      write(draft, 0, *to);
      read(draft, 1, constant(8, 0));
    } else if (form.has_address) {
      Draft unused;
      Area area = Area::kGeneric;
      if (!address(unused, operand(0), &area)) return bad_operands();
      if (form.most == 2 && literal(operand(1), 4, false) != uint64_t{128}) return bad_operands();
    }
    return Status{};
  }
  return std::nullopt;
}

}  // namespace cropdl::engine
