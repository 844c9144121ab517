// What the generated lower half of a library with one ABI (one_abi/roles.toml) wants of its runtime: virtual
// handles. LH only, LH FS base, a thread of the program.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

namespace cropdl::one_abi {

// --- The runtime's part. `function` is an index in the library's table.
// A value that is no virtual handle passes through: null, and numbers with a meaning (streams 0, 1, 2).
uint64_t real_word(uint64_t virtual_handle);
// The virtual handle of an object that `function` made just now; of one that was there before.
uint64_t made_word(uint64_t real, uint32_t function);
uint64_t known_word(uint64_t real, uint32_t function);
void forget_word(uint64_t virtual_handle);
// A text of the library's, which is elsewhere after a restart: a copy of it that stays, the same for the same
// text.
const char* kept_text(const char* text);
// From now on this process can not be checkpointed; refusals name the function and `why`.
void mark_unsaved(uint32_t function, const char* why);

// --- The same for the handles' types: pointers, integers and enumerations.
template <class H>
uint64_t word_of(H handle) {
  if constexpr (std::is_pointer_v<H>) {
    return reinterpret_cast<uint64_t>(handle);
  } else {
    return static_cast<uint64_t>(handle);
  }
}
template <class H>
H handle_of(uint64_t word) {
  if constexpr (std::is_pointer_v<H>) {
    return reinterpret_cast<H>(word);
  } else {
    return static_cast<H>(word);
  }
}
template <class H>
H real(H handle) {
  return handle_of<H>(real_word(word_of(handle)));
}
template <class H>
H made(H handle, uint32_t function) {
  return handle_of<H>(made_word(word_of(handle), function));
}
template <class H>
H known(H handle, uint32_t function) {
  return handle_of<H>(known_word(word_of(handle), function));
}
template <class H>
void forget_object(H handle) {
  forget_word(word_of(handle));
}

// The real handles of an array, null for null.
template <class H>
class Reals {
 public:
  Reals(const H* from, size_t n) : null_(!from) {
    for (size_t i = 0; from && i < n; ++i) reals_.push_back(real(from[i]));
  }
  H* data() const { return null_ ? nullptr : const_cast<H*>(reals_.data()); }

 private:
  bool null_;
  std::vector<H> reals_;
};

// The entry of a function that is to be written by hand and is not yet: no shim calls it.
inline int unwritten() { return -1; }

}  // namespace cropdl::one_abi
