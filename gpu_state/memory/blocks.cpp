#include "gpu_state/memory/blocks.h"

#include <iterator>

namespace cropdl::memory {

State* State::format() {
  auto* made = static_cast<State*>(handles::heap_allocate(sizeof(State)));
  if (made) made->version = kStateVersion;
  return made;
}

const char* State::check() const {
  if (version != kStateVersion)
    return "the image's device memory was written by another version of CropDL (restart it with that one), "
           "or is damaged";
  if (arena != 0 && arena != kArenaBegin)
    return "the image's device memory lies elsewhere than this CropDL's";
  if (devices > static_cast<uint32_t>(kDevices)) return "the image has more devices than this CropDL knows";
  return "";
}

Blocks::Blocks(State& state) : state_(state) {
  state_.blocks.each([&](Block* one) { by_begin_.emplace(one->begin, one); });
}

Block* Blocks::make(uint64_t begin, uint64_t size, uint64_t room, BlockKind kind, int device) {
  Block* made = state_.blocks.make();
  if (!made) return nullptr;
  made->begin = begin;
  made->size = size;
  made->room = room;
  made->kind = kind;
  made->device = device;
  made->id = next_id();
  by_begin_.emplace(begin, made);
  return made;
}

void Blocks::drop(Block* block) {
  by_begin_.erase(block->begin);
  state_.blocks.drop(block);
}

Block* Blocks::at(uint64_t begin) const {
  const auto found = by_begin_.find(begin);
  return found != by_begin_.end() && !found->second->freed ? found->second : nullptr;
}

Block* Blocks::around(uint64_t address) const {
  auto next = by_begin_.upper_bound(address);
  if (next == by_begin_.begin()) return nullptr;
  Block* block = std::prev(next)->second;
  return address - block->begin < block->room ? block : nullptr;
}

}  // namespace cropdl::memory
