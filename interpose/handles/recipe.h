// A recipe: the arguments of the call that made an object, in order. Generated code (interpose/gen) writes it
// after the call has succeeded, and reads it to repeat the call. LH, any thread.
#pragma once

#include <algorithm>
#include <cstring>
#include <memory>
#include <type_traits>

#include "interpose/handles/table.h"

namespace cropdl::handles {

inline constexpr size_t kRecipeAlignment = 8;

// Stores the first kFew items without an allocation: setters are called often and have few arguments.
// boost::container::small_vector (1.74) takes eight times as long for a usual recipe.
template <class T, size_t kFew>
class FewOrMany {
 public:
  FewOrMany() = default;
  FewOrMany(const FewOrMany&) = delete;
  T* add(size_t n) {
    if (n > room_ - size_) grow(n);
    T* at = first_ + size_;
    size_ += n;
    return at;
  }
  std::span<const T> all() const { return {first_, size_}; }

 private:
  void grow(size_t n) {
    room_ = 2 * (size_ + n);
    auto more = std::make_unique_for_overwrite<T[]>(room_);
    std::copy_n(first_, size_, more.get());
    many_ = std::move(more);
    first_ = many_.get();
  }
  T few_[kFew];
  T* first_ = few_;
  size_t size_ = 0, room_ = kFew;
  std::unique_ptr<T[]> many_;
};

template <class T>
using ItemOf = std::conditional_t<std::is_void_v<T>, char, T>;

class RecipeWriter {
 public:
  template <class T>
  void value(T v) {
    static_assert(std::is_trivially_copyable_v<T>);
    append(&v, sizeof v);
  }
  // nullptr stays nullptr; its length is ignored. For void, `n` counts bytes.
  template <class T>
  void array(const T* from, int64_t n) {
    value<int64_t>(from ? n : -1);
    if (from && n > 0) append(from, static_cast<size_t>(n) * sizeof(ItemOf<T>));
  }
  void handle(Handle h) { *dependencies_.add(1) = h; }
  void handles(const Handle* from, int64_t n) {
    value<int64_t>(from ? n : -1);
    if (from && n > 0)
      memcpy(dependencies_.add(static_cast<size_t>(n)), from, static_cast<size_t>(n) * sizeof *from);
  }

  std::span<const Handle> dependencies() const { return dependencies_.all(); }
  std::span<const char> payload() const { return payload_.all(); }

 protected:
  void append(const void* from, size_t bytes) {
    const size_t whole = (bytes + kRecipeAlignment - 1) & ~(kRecipeAlignment - 1);
    char* at = payload_.add(whole);
    memcpy(at, from, bytes);
    memset(at + bytes, 0, whole - bytes);
  }

 private:
  FewOrMany<Handle, 8> dependencies_;
  FewOrMany<char, 192> payload_;
};

// Reads in the order of writing. Returned pointers point into the recipe.
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
  const ItemOf<T>* array() {
    const auto n = value<int64_t>();
    using Item = ItemOf<T>;
    return n < 0 ? nullptr : reinterpret_cast<const Item*>(take(static_cast<size_t>(n) * sizeof(Item)));
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
