// Recipes: the arguments of a call that a restart makes again, in the order of its parameters. Generated code
// writes them, and reads them to repeat the call. Pointers into the program and into the arena are plain
// values, because they stay valid; virtual handles are dependencies of the recipe. LH, any thread.
#pragma once

#include <cstdint>
#include <cstring>

#include "interpose/handles/recipe.h"

namespace cropdl::one_abi {

inline bool is_virtual(uint64_t word) { return word >> 48 == 0x7a7a; }  // a handle with kTag (lower.h)
uint64_t real_word_of_recipe(uint64_t word);  // also for ended objects that other recipes still need

template <class H>
class Reals;

// The arguments of a setter that identify the thing that it sets.
class Key : public handles::RecipeWriter {
 public:
  void text(const char* t) { array(t, t ? static_cast<int64_t>(strlen(t)) + 1 : 0); }
  void handle(uint64_t word) {
    value(word);
    if (is_virtual(word)) handles::RecipeWriter::handle(static_cast<handles::Handle>(word));
  }
  template <class H>
  void handles(const H* from, int64_t n, uint32_t kind);
};

// The arguments of a call, behind the device that must be current when it is repeated.
class RecipeWriter : public Key {
 public:
  // Placeholder. The device is written when the recipe is kept: the object's, or that of on_device().
  RecipeWriter() { value<int64_t>(-1); }
  void on_device(int device) { device_ = device; }
  int device() const { return device_; }

 private:
  int device_ = -1;
};

// A call that a restart repeats: its arguments in the order of writing, and the object that it made.
class Again : public handles::RecipeReader {
 public:
  // Makes the object's device current, if it has one. `ended`: when the object ended, in the order of all
  // objects; the largest number if it has not ended.
  Again(const handles::Recipe& recipe, uint64_t ended);
  bool fine() const { return fine_; }  // false: the object's device cannot be made current

  int device() const { return device_; }
  uint64_t ended() const { return ended_; }
  const char* text() { return array<char>(); }
  uint64_t handle() { return real_word_of_recipe(value<uint64_t>()); }
  template <class H>
  Reals<H> handles();

  void made(uint64_t real) { made_ = real; }
  uint64_t made() const { return made_; }

 private:
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
