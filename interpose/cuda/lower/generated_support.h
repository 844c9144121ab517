// Room for memory that the driver itself allocates, and what generated code of the runtime's and the driver's
// tables calls for arrays: the driver lays out their memory, so they are real, and each refuses checkpoints
// while it exists, by its maker's name. Sources: CUDA Runtime API and Driver API 13.0, "Memory Management".
// LH, LH FS base, a thread of the program.
#pragma once

#include <optional>
#include <vector>

#include "interpose/one_abi/lower.h"

namespace cropdl::cuda {

// Returns the arena's spare memory of the device (-1: the current one) to the driver. False: no arena.
bool make_room(int device);
// Runs `allocate`, which asks the driver for memory; if it is short, makes room and tries once more.
template <class Allocate>
auto with_room(int device, Allocate allocate) {
  constexpr int kOutOfMemory = 2;  // CUDA_ERROR_OUT_OF_MEMORY, cudaErrorMemoryAllocation (memory.h checks it)
  const auto result = allocate();
  return static_cast<int>(result) == kOutOfMemory && make_room(device) ? allocate() : result;
}
// The same for a function of a library, on the current device.
template <class R, class... P>
auto in_room(R (*function)(P...)) {
  return [function](P... arguments) { return with_room(-1, [&] { return function(arguments...); }); };
}

// A copy's structure with real handles of arrays and contexts. Null is passed on: the library checks it.
template <class Copy>
class WithRealArrays {
 public:
  explicit WithRealArrays(const Copy* from) {
    if (!from) return;
    Copy& its = copy_.emplace(*from);
    its.srcArray = one_abi::real(its.srcArray, one_abi::kind::cudaArray);
    its.dstArray = one_abi::real(its.dstArray, one_abi::kind::cudaArray);
    if constexpr (requires { its.srcContext; }) {
      its.srcContext = one_abi::real(its.srcContext, one_abi::kind::cudaContext);
      its.dstContext = one_abi::real(its.dstContext, one_abi::kind::cudaContext);
    }
  }
  const Copy* data() const { return copy_ ? &*copy_ : nullptr; }

 private:
  std::optional<Copy> copy_;
};

template <class Operation>
std::vector<Operation> with_real_arrays(const Operation* from, size_t n) {
  constexpr int kArray = 2;  // CU_MEMCPY_OPERAND_TYPE_ARRAY, cudaMemcpyOperandTypeArray (memory.h checks it)
  std::vector<Operation> all;
  for (size_t i = 0; from && i < n; ++i) {
    all.push_back(from[i]);
    for (auto* side : {&all.back().src, &all.back().dst})
      if (static_cast<int>(side->type) == kArray)
        side->op.array.array = one_abi::real(side->op.array.array, one_abi::kind::cudaArray);
  }
  return all;
}

}  // namespace cropdl::cuda
