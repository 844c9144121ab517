// What the runtime's and driver's by-hand functions keep in the persistent heap. Images hold it: append-only.
// LH, any thread, under one_abi::family_lock.
#pragma once

#include <cstdint>

#include "interpose/one_abi/state.h"

namespace cropdl::cuda {

struct Kept {
  enum : uint32_t { kThere = 1, kBeingMade = 2 };
  uint32_t callback_thread;  // the program's, for host functions (callbacks.h); 0: there is none
  uint32_t reserved;
  // Numbers of streams and contexts (names.h): those of this run begin behind those of the former ones.
  uint64_t numbers_before, largest_number;
  struct {
    uint64_t legacy;  // its number
    uint64_t own;     // list of what each thread's has
  } default_streams[one_abi::kMaxDevices];
  // Contexts (contexts.h).
  int32_t retained[one_abi::kMaxDevices];  // by the program, of each device's primary one
};

// Null: the heap is full, or the family has nothing yet. Made zero-filled when it is first wanted.
Kept* kept();

}  // namespace cropdl::cuda
