#include "gpu_state/memory/state.h"

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

}  // namespace cropdl::memory
