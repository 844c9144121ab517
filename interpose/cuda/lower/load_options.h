// The options of a load of code, as its recipe has them. LH, LH FS base, any thread.
#pragma once

#include <cstdint>
#include <vector>

namespace cropdl::cuda {

struct LoadOptions {
  std::vector<int32_t> names;
  std::vector<void*> values;
  bool values_only = true;  // false: an option points at what a restart does not have

  unsigned count() const { return static_cast<unsigned>(names.size()); }
  template <class T>
  T* names_as() {
    return reinterpret_cast<T*>(names.data());
  }
};

// Copies: the driver writes results into some of the values (CU_JIT_THREADS_PER_BLOCK), and the recipe must
// stay as the program's call made it.
template <class Recipe>  // one_abi::Again
LoadOptions read_options(Recipe& from) {
  const auto* names = from.template array<int32_t>();
  void* const* values = from.template array<void*>();
  const auto n = from.template value<uint32_t>();
  return {std::vector(names, names + n), std::vector(values, values + n)};
}

}  // namespace cropdl::cuda
