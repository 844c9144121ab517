// A recipe as the arguments of the call that made the object, in the order of its parameters: what generated
// code (interpose/gen) writes when the call has succeeded, and reads to make it again. LH, any thread.
#pragma once

#include <cstring>
#include <type_traits>

#include "interpose/handles/table.h"

namespace cropdl::handles {

inline constexpr size_t kRecipeAlignment = 8;

class RecipeWriter {
 public:
  template <class T>
  void value(T v) {
    static_assert(std::is_trivially_copyable_v<T>);
    append(&v, sizeof v);
  }
  // nullptr stays nullptr; its length is not looked at then.
  template <class T>
  void array(const T* from, int64_t n) {
    value<int64_t>(from ? n : -1);
    if (from && n > 0) append(from, static_cast<size_t>(n) * sizeof(T));
  }
  void handle(Handle h) { dependencies_.push_back(h); }
  void handles(const Handle* from, int64_t n) {
    value<int64_t>(from ? n : -1);
    if (from && n > 0) dependencies_.insert(dependencies_.end(), from, from + n);
  }

  std::span<const Handle> dependencies() const { return dependencies_; }
  std::span<const char> payload() const { return payload_; }

 private:
  void append(const void* from, size_t bytes) {
    const size_t at = payload_.size();
    payload_.resize(at + ((bytes + kRecipeAlignment - 1) & ~(kRecipeAlignment - 1)));
    memcpy(payload_.data() + at, from, bytes);
  }
  std::vector<Handle> dependencies_;
  std::vector<char> payload_;
};

// Reads in the order of writing. What it returns lies in the recipe.
class RecipeReader {
 public:
  explicit RecipeReader(const Recipe& recipe)
      : at_(static_cast<const char*>(recipe.payload())), handle_(recipe.handles().data()) {}

  template <class T>
  T value() {
    T v;
    memcpy(&v, take(sizeof v), sizeof v);
    return v;
  }
  template <class T>
  const T* array() {
    const auto n = value<int64_t>();
    return n < 0 ? nullptr : reinterpret_cast<const T*>(take(static_cast<size_t>(n) * sizeof(T)));
  }
  Handle handle() { return *handle_++; }
  const Handle* handles() {
    const auto n = value<int64_t>();
    return n < 0 ? nullptr : (handle_ += n) - n;
  }

 private:
  const char* take(size_t bytes) {
    const char* here = at_;
    at_ += (bytes + kRecipeAlignment - 1) & ~(kRecipeAlignment - 1);
    return here;
  }
  const char* at_;
  const Handle* handle_;
};

}  // namespace cropdl::handles
