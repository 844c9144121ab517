// Reads data that may be damaged, or malicious: sizes in it may request any amount of memory. Any thread.
#pragma once

#include <new>
#include <stdexcept>
#include <string>

#include "base/result.h"

namespace cropdl {

// Returns the Result or Status that `read` returns; if memory is short, an error that begins with `what`.
template <class Read>
auto within_memory(const std::string& what, Read read) -> decltype(read()) {
  try {
    return read();
  } catch (const std::bad_alloc&) {
  } catch (const std::length_error&) {
  }
  return Error{what + ": damaged, or it needs more memory than there is"};
}

}  // namespace cropdl
