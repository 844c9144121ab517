#include "interpose/cuda/lower/saved_memory.h"

#include <utility>

#include "interpose/cuda/lower/contexts.h"
#include "interpose/cuda/lower/devices.h"
#include "interpose/cuda/lower/memory.h"
#include "interpose/cuda/lower/taken_variables.h"
#include "interpose/one_abi/state.h"

namespace cropdl::cuda {

void MemoryCut::settle() {
  settled_ = {};
  DeviceMemory* its = known_device_memory();
  if (!its && one_abi::family && !used_devices().empty()) {  // there may be variables only
    its = device_memory();
    const auto variables = its ? std::vector<memory::Variable>() : registered_variables();
    if (!variables)
      settled_ = variables.error();
    else if (!variables->empty())
      settled_ = Error{"CUDA: the variable {} of device {} cannot be saved: there is no device memory",
                       variables->front().name, variables->front().device};
  }
  if (!its) return;
  its->pools.settle();
  settled_ = note_unmapped_host_memory();
  if (!settled_) return;
  auto variables = registered_variables();
  settled_ = variables ? addresses_may_come_again(*variables) : variables.error();
  if (settled_) settled_ = its->contents.note_variables(*variables);
}

uint64_t memory_region_bytes() {
  DeviceMemory* its = known_device_memory();
  uint64_t bytes = 0;
  if (its)
    for (const restart::Region& region : its->contents.regions())
      for (const restart::Extent& extent : region.present) bytes += extent.end - extent.begin;
  return bytes;
}

Status MemoryCut::save(restart::ChunkSink& sink) {
  if (!settled_) return settled_;
  DeviceMemory* its = known_device_memory();
  if (!its) return {};
  if (Status there = its->own.map_contents(one_abi::real_word); !there) return there;
  Status saved = its->contents.save(sink);
  its->own.unmap_contents();
  return saved;
}

Status take_addresses() {
  const auto restored = restored_device_memory();
  if (!restored) return restored.error();
  DeviceMemory* its = *restored;
  if (!its) return {};
  // Holds the contexts: the thread that made the memory may reach its context only later.
  if (Status there = its->managed.restore(hold_primary); !there) return there;
  if (Status there = its->own.reserve_again(); !there) return there;
  return its->arena.restore();
}

Status load_memory(const restart::ImageReader& image, bool variables_may_move) {
  DeviceMemory* its = known_device_memory();
  if (!its) return {};
  if (Status there = register_host_memory_again(); !there) return there;
  if (Status same = compare_taken_variables(); !same) return same;
  if (Status there = its->own.map_again(one_abi::real_word); !there) return there;
  if (Status there = its->own.map_contents(one_abi::real_word); !there) return there;
  const VariablesHere here;
  Status loaded = its->contents.load(
      image,
      [&](const std::string& name, int device, uint64_t size) { return here.find(name, device, size); },
      variables_may_move);
  its->own.unmap_contents();
  if (!loaded) return loaded;
  if (Status given = its->own.give_access_again(); !given) return given;
  if (Status told = its->advised.tell_again(primary_context); !told) return told;
  return set_pointer_attributes_again();
}

std::string memory_refusal() {
  const DeviceMemory* its = known_device_memory();
  if (!its) return "";
  if (std::string why = its->own.refusal(); !why.empty()) return why;
  if (std::string why = its->managed.refusal(); !why.empty()) return why;
  return host_memory_refusal();
}

}  // namespace cropdl::cuda
