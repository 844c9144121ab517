// What a cuRAND generator has done, in the persistent heap: append-only. Loops become one entry with a count.
// LH, LH FS base, threads of the program, under their lock.
#pragma once

#include <curand.h>

#include <cstdint>
#include <cstring>

#include "curand_functions.h"
#include "interpose/one_abi/state.h"

extern const cropdl::one_abi::RealLibrary cropdl_curand_lower_table_library;

#define CROPDL_CURAND(name)                                                        \
  (cropdl::one_abi::function_of<decltype(name)>(cropdl_curand_lower_table_library, \
                                                cropdl::seam::curand::kFn_##name))

namespace cropdl::cuda::curand {

namespace fn = cropdl::seam::curand;

struct Step {
  uint32_t function;
  uint32_t method = 0;
  uint64_t n = 0;  // count of numbers, or a setter's value
  double a = 0, b = 0;
  // Also of numbers that are not equal to themselves. No padding: see the size.
  // NOLINTNEXTLINE(bugprone-suspicious-memory-comparison)
  bool operator==(const Step& other) const { return memcmp(this, &other, sizeof other) == 0; }
};
static_assert(sizeof(Step) == 32);

// A step repeated `times` times.
struct Run {
  Step step;
  uint64_t times;
  bool operator==(const Run&) const = default;
};

// Some runs, repeated `times` times.
struct Loop {
  uint64_t times;
  uint32_t first, length;  // in the history's runs
};

// All runs in their order. Each is in one loop, except the last, which may still grow.
struct History {
  uint64_t runs, loops;  // addresses
  uint32_t run_count, run_room;
  uint32_t loop_count, loop_room;
  uint64_t stream;  // set by the program (its handle)
  uint64_t reserved[3];
  Run* run() { return reinterpret_cast<Run*>(runs); }
  Loop* loop() { return reinterpret_cast<Loop*>(loops); }
};

// Records a step. False: the heap is full, or there are too many steps in no order that repeats.
bool append(History& history, const Step& step);
// An offset starts anew. Of the earlier steps, keeps only the last value of each setter.
void forget_draws(History& history);
bool is_setter(uint32_t function);
// Has the real generator do a step; a draw writes to `to`.
curandStatus_t perform(curandGenerator_t real, const Step& step, void* to);

}  // namespace cropdl::cuda::curand
