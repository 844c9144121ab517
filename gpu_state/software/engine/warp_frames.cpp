// How a warp begins, calls and returns, and how its lanes end.
#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>

#include "base/format.h"
#include "gpu_state/software/engine/running.h"

namespace cropdl::engine {

namespace {

constexpr uint32_t kCallBytes = 16;  // local memory per call, at least: return address, saved registers
constexpr int kPoison = 0xff;        // a float of these bytes is NaN

void copy_words(std::byte* to, const std::byte* from, uint32_t bytes, uint32_t lanes) {
  for (size_t word = 0; word < (bytes + 3) / 4; ++word) {
    auto* t = reinterpret_cast<uint32_t*>(to) + word * kLanes;
    const auto* f = reinterpret_cast<const uint32_t*>(from) + word * kLanes;
    for (int l = 0; l < kLanes; ++l)
      if (lanes >> l & 1) t[l] = f[l];
  }
}

}  // namespace

WarpRun::~WarpRun() {
  for (auto* list : {&frames_, &spare_})
    for (auto& one : *list) std::free(one->registers);
}

void WarpRun::begin(Block* of, uint32_t number, uint32_t threads) {
  block = of;
  index = number;
  exists = alive = threads == kLanes ? kAllLanes : (1u << threads) - 1;
  const Dim3& shape = of->grid->launch->block;
  uint32_t linear = number * kLanes;
  uint32_t x = linear % shape[0], y = linear / shape[0] % shape[1], z = linear / shape[0] / shape[1];
  for (int l = 0; l < kLanes; ++l) {
    thread[0][l] = x;
    thread[1][l] = y;
    thread[2][l] = z;
    if (++x == shape[0]) {
      x = 0;
      if (++y == shape[1]) {
        y = 0;
        ++z;
      }
    }
  }
  const Grid& grid = *of->grid;
  shared = of->shared;
  shared_bytes = grid.shared_bytes;
  parameters = grid.launch->parameters.data();
  parameter_bytes = static_cast<uint32_t>(grid.launch->parameters.size());
  memory = grid.launch->memory;
  local_bytes = grid.local_bytes;
  local_storage_.resize(size_t{local_bytes} * kLanes + 64);
  local = local_storage_.data();
  if (local_bytes) std::memset(local, kPoison, size_t{local_bytes} * kLanes);
  while (!frames_.empty()) drop_frame(frames_.back().get());
  count = 0;
  turns_ = 0;
  forced_lane_ = -1;
  choices_ = orderly_ = 0;
  patience_ = 1024;
  attention = false;
  copies.clear();
  copy_group.fill(0);
  called_ = nullptr;
  Frame* entry = make_frame(*grid.kernel->entry);
  entry->lanes = alive;
  add(alive, grid.kernel->entry->code.data(), entry);
}

Frame* WarpRun::make_frame(const Routine& routine) {
  size_t wanted = routine.frame_bytes;
  std::unique_ptr<Frame> frame;
  for (size_t i = spare_.size(); i-- > 0;)
    if (spare_[i]->capacity >= wanted) {
      frame = std::move(spare_[i]);
      spare_.erase(spare_.begin() + static_cast<long>(i));
      break;
    }
  if (!frame) {
    frame = std::make_unique<Frame>();
    frame->capacity = round_up(static_cast<uint32_t>(wanted), 1024);
    frame->registers = static_cast<std::byte*>(std::aligned_alloc(64, frame->capacity));
    std::memset(frame->registers, kPoison, frame->capacity);
  }
  frame->routine = &routine;
  frame->parent = nullptr;
  frame->call = nullptr;
  frame->site = nullptr;
  frame->depth = 0;
  frame->lanes = 0;
  frame->local_base = 0;
  frames_.push_back(std::move(frame));
  return frames_.back().get();
}

void WarpRun::drop_frame(Frame* frame) {
  for (size_t i = frames_.size(); i-- > 0;)
    if (frames_[i].get() == frame) {
      spare_.push_back(std::move(frames_[i]));
      frames_.erase(frames_.begin() + static_cast<long>(i));
      return;
    }
}

bool WarpRun::call(Group& group, const Instruction* at, uint32_t active) {
  const CallSite& site = current->routine->calls[at->immediate];
  if (uint32_t rest = group.mask & ~active) {
    group.mask = active;
    add(rest, at + 1, current);
  }
  if (site.target == CallSite::Target::kRoutine) return enter(group, at, site, *site.routine);
  const uint64_t* targets = lanes<uint64_t>(site.address);
  const uint64_t target = targets[std::countr_zero(active)];
  uint32_t same = 0;
  for (int l = 0; l < kLanes; ++l)
    if ((active >> l & 1) && targets[l] == target) same |= 1u << l;
  if (same != active) {  // the other lanes execute the call again, with their own target
    group.mask = same;
    add(active & ~same, at, current);
  }
  const Kernel& kernel = *block->grid->kernel;
  auto own = kernel.by_address.find(target);
  if (own != kernel.by_address.end()) return enter(group, at, site, *own->second);
  if (!called_ || called_at_ != target) {
    std::string why;
    std::shared_ptr<const Kernel> other = find_function(target, &why);
    if (!other) {
      fail(at, std::countr_zero(same), CUDA_ERROR_INVALID_PC, formatted("a call of {:#x}: {}", target, why));
      return false;
    }
    called_at_ = target;
    called_ = other.get();
    std::lock_guard lock(block->grid->mutex);
    auto& called = block->grid->called;
    if (std::find(called.begin(), called.end(), other) == called.end()) called.push_back(other);
  }
  return enter(group, at, site, *called_->entry);
}

bool WarpRun::enter(Group& group, const Instruction* at, const CallSite& site, const Routine& routine) {
  auto wrong = [&](CUresult error, const std::string& why) {
    fail(at, std::countr_zero(group.mask), error, why);
    return false;
  };
  if (!routine.cannot.empty()) return wrong(CUDA_ERROR_ILLEGAL_INSTRUCTION, routine.cannot);
  auto same = [](const std::vector<Parameter>& a, const std::vector<Parameter>& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                      [](const Parameter& x, const Parameter& y) { return x.size == y.size; });
  };
  if (!same(site.arguments, routine.parameters) || !same(site.returned, routine.returned))
    return wrong(CUDA_ERROR_ILLEGAL_INSTRUCTION,
                 formatted("the call's parameters are not those of {}", routine.name));
  Frame* parent = group.frame;
  Frame* frame = nullptr;
  for (auto& one : frames_)
    if (one->parent == parent && one->call == at && one->routine == &routine) frame = one.get();
  if (!frame) {
    uint32_t base = round_up(round_up(parent->local_base + parent->routine->local_bytes, 16) + kCallBytes,
                             routine.local_align);
    if (base + routine.local_bytes > local_bytes)
      return wrong(CUDA_ERROR_HARDWARE_STACK_ERROR,
                   formatted("the stack of {} bytes per thread (cuCtxSetLimit, CU_LIMIT_STACK_SIZE) is used "
                             "up by calls {} deep",
                             local_bytes, parent->depth + 1));
    frame = make_frame(routine);
    frame->parent = parent;
    frame->call = at;
    frame->site = &site;
    frame->depth = parent->depth + 1;
    frame->local_base = base;
  }
  frame->lanes |= group.mask;
  for (size_t i = 0; i < site.arguments.size(); ++i)
    copy_words(frame->registers + routine.parameters[i].place, parent->registers + site.arguments[i].place,
               site.arguments[i].size, group.mask);
  group.frame = frame;
  group.at = routine.code.data();
  return true;
}

void WarpRun::leave(Group& group) {
  Frame* frame = group.frame;
  const CallSite& site = *frame->site;
  for (size_t i = 0; i < site.returned.size(); ++i)
    copy_words(frame->parent->registers + site.returned[i].place,
               frame->registers + frame->routine->returned[i].place, site.returned[i].size, group.mask);
  group.frame = frame->parent;
  group.at = frame->call + 1;
  frame->lanes &= ~group.mask;
  if (!frame->lanes) drop_frame(frame);
}

// All of the group's lanes end.
void WarpRun::exit_lanes(Group& group, uint32_t lanes) {
  perform_copies(lanes, kNoGroup);
  alive &= ~lanes;
  for (Frame* frame = group.frame; frame;) {
    Frame* parent = frame->parent;
    frame->lanes &= ~lanes;
    if (!frame->lanes) drop_frame(frame);
    frame = parent;
  }
  remove(static_cast<uint32_t>(&group - groups.data()));
  block->exited(lanes);
}

std::string WarpRun::where(const Instruction* at, uint32_t lane) const {
  const Routine& routine = *current->routine;
  const ptx::Instruction* source = routine.source[routine.index_of(at)];
  std::string text =
      formatted("{}, block ({}, {}, {}), thread ({}, {}, {})", block->grid->kernel->facts.name, block->at[0],
                block->at[1], block->at[2], thread[0][lane], thread[1][lane], thread[2][lane]);
  if (!routine.is_entry) text += formatted(", in {}", routine.name);
  if (source) text += formatted(": {} (line {} of the PTX)", source->opcode, source->line);
  return text;
}

void WarpRun::fail(const Instruction* at, uint32_t lane, CUresult error, const std::string& what) {
  std::string text = where(at, lane) + ": ";
  if (what.empty()) {
    text += trouble.what;
    if (trouble.address) text += formatted(" {:#x}", trouble.address);
  } else {
    text += what;
  }
  attention = true;
  block->grid->fail(error, std::move(text));
}

void Grid::fail(CUresult error, std::string text) {
  {
    std::lock_guard lock(mutex);
    if (outcome.error == CUDA_SUCCESS) outcome = {error, std::move(text)};
  }
  stop.store(true, std::memory_order_relaxed);
}

}  // namespace cropdl::engine
