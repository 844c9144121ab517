// Recipes: the arguments of a call that a restart makes again, in the order of its parameters. Generated code
// writes them, and reads them to repeat the call. Pointers into the program and into the arena are plain
// values, because they stay valid; virtual handles are dependencies of the recipe. LH, any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

#include "interpose/handles/recipe.h"

namespace cropdl::one_abi {

uint64_t real_word_of_recipe(uint64_t word);  // also for ended objects that other recipes still need

template <class H>
class Reals;

class RecipeWriter {
 public:
  // Placeholder. The device that must be current when the call is repeated is written when the recipe is
  // kept: the object's, or that of on_device().
  RecipeWriter() { writer_.value<int64_t>(-1); }
  void on_device(int device) { device_ = device; }
  int device() const { return device_; }

  template <class T>
  void value(T v) {
    writer_.value(v);
  }
  // Keeps nullptr. For void, `n` counts bytes.
  template <class T>
  void array(const T* from, int64_t n) {
    if constexpr (std::is_void_v<T>) {
      writer_.array(static_cast<const char*>(from), n);
    } else {
      writer_.array(from, n);
    }
  }
  void text(const char* t) { array(t, t ? static_cast<int64_t>(strlen(t)) + 1 : 0); }
  void handle(uint64_t word) {
    writer_.value(word);
    if (word >> 48 == 0x7a7a) writer_.handle(static_cast<handles::Handle>(word));
  }
  template <class H>
  void handles(const H* from, int64_t n, uint32_t kind);

  const handles::RecipeWriter& written() const { return writer_; }

 protected:
  struct OfArguments {};
  explicit RecipeWriter(OfArguments) {}

 private:
  int device_ = -1;
  handles::RecipeWriter writer_;
};

// The arguments of a setter that identify the thing that it sets.
class Key : public RecipeWriter {
 public:
  Key() : RecipeWriter(OfArguments{}) {}
};

// A call that a restart repeats: its arguments in the order of writing, and the object that it made.
class Again {
 public:
  // Makes the object's device current, if it has one. `ended`: when the object ended, in the order of all
  // objects; the largest number if it has not ended.
  Again(const handles::Recipe& recipe, uint64_t ended);
  bool fine() const { return fine_; }  // false: the object's device cannot be made current

  int device() const { return device_; }
  uint64_t ended() const { return ended_; }
  template <class T>
  T value() {
    return reader_.value<T>();
  }
  template <class T>
  const T* array() {
    return reader_.array<std::conditional_t<std::is_void_v<T>, char, T>>();
  }
  const char* text() { return reader_.array<char>(); }
  uint64_t handle() { return real_word_of_recipe(reader_.value<uint64_t>()); }
  template <class H>
  Reals<H> handles();

  void made(uint64_t real) { made_ = real; }
  uint64_t made() const { return made_; }

 private:
  handles::RecipeReader reader_;
  uint64_t ended_;
  int device_;
  bool fine_;
  uint64_t made_ = 0;
};

// A buffer for output that nobody reads.
struct Room {
  alignas(16) char bytes[512] = {};
};

}  // namespace cropdl::one_abi
