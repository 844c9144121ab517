// The options with which a restart loads code, from the recipe of the load. LH, LH FS base, START.
#pragma once

#include <cstdint>
#include <vector>

namespace cropdl::cuda {

// The values are copies: the driver writes results into some of them (CU_JIT_THREADS_PER_BLOCK), and the
// recipe must stay as the program's call made it.
class ReadOptions {
 public:
  template <class Recipe>  // one_abi::Again
  explicit ReadOptions(Recipe& from) : names_(from.template array<int32_t>()) {
    void* const* values = from.template array<void*>();
    n_ = from.template value<uint32_t>();
    values_.assign(values, values + n_);
  }
  uint32_t count() const { return n_; }
  template <class T>
  T* names() const {
    return n_ ? reinterpret_cast<T*>(const_cast<int32_t*>(names_)) : nullptr;
  }
  void** values() { return n_ ? values_.data() : nullptr; }

 private:
  const int32_t* names_;
  uint32_t n_ = 0;
  std::vector<void*> values_;
};

}  // namespace cropdl::cuda
