// Reading what may be damaged, or made to be: sizes in it may ask for any amount of memory. Any thread.
#pragma once

#include <new>
#include <stdexcept>
#include <string>

#include "base/result.h"

namespace cropdl {

// What `read` returns, a Result or Status; an error that begins with `what` if there is not so much memory.
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
