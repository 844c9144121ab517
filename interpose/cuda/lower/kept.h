// State of the hand-written functions of the runtime and the driver, in the persistent heap. Part of images:
// append-only. LH, any thread, under one_abi::family_lock.
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>

#include "interpose/handles/heap.h"
#include "interpose/one_abi/state.h"

namespace cropdl::cuda {

struct Kept {
  enum : uint32_t { kThere = 1, kBeingMade = 2 };
  uint32_t callback_thread;  // the program's callback thread (callbacks.h); 0: none
  uint32_t reserved;
  // Ids of streams and contexts (names.h). This run's ids begin above those of earlier runs.
  uint64_t numbers_before, largest_number;
  struct {
    uint64_t legacy;  // id of the legacy default stream
    uint64_t own;     // list of ids of the threads' own default streams
  } default_streams[one_abi::kMaxDevices];
  // Contexts (contexts.h).
  int32_t retained[one_abi::kMaxDevices];  // the program's references to each primary context
};

// A copy of the text in the heap. Null: the heap is full.
inline char* heap_text(std::string_view text) {
  auto* copy = static_cast<char*>(handles::heap_allocate(text.size() + 1));  // zero-filled
  if (copy) memcpy(copy, text.data(), text.size());
  return copy;
}

// Made zero-filled at the first use. Null: the heap is full, or the family has no state yet.
inline Kept* kept() {
  if (!one_abi::family) return nullptr;
  uint64_t& member = one_abi::family->members[one_abi::kMemberCalls];
  if (!member) member = reinterpret_cast<uint64_t>(handles::heap_allocate(sizeof(Kept)));
  return reinterpret_cast<Kept*>(member);
}

}  // namespace cropdl::cuda
