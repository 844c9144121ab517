// Turns what is thrown into an error. Any allocation may lack memory (std::bad_alloc; jobs have limits): a
// checkpoint then fails, and the program goes on. What leaves the top of a thread, or reaches frames of the
// program, would end the process. LH and tools; any thread.
#pragma once

#include <exception>
#include <new>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

#include "base/result.h"

namespace cropdl {

// Returns the Result or Status that `work` returns; a good Status if it returns nothing. Call it without
// holding what `work` cannot leave half done.
template <class Work, class Returned = decltype(std::declval<Work&>()())>
auto caught(Work work) noexcept -> std::conditional_t<std::is_void_v<Returned>, Status, Returned> {
  try {
    try {
      if constexpr (std::is_void_v<Returned>) {
        work();
        return {};
      } else {
        return work();
      }
    } catch (const std::bad_alloc&) {
      return Error{"this rank has no memory left for it; raise the limit (ulimit -v, or the job's)"};
    } catch (const std::exception& e) {
      return Error{e.what()};
    }
  } catch (...) {  // there is not even memory for that text; this one needs none
    return Error{"out of memory"};
  }
}

// Reads data that may be damaged, or malicious: sizes in it may request any amount of memory. Returns the
// Result or Status that `read` returns; if memory is short, an error that begins with `what`.
template <class Read>
auto within_memory(const std::string& what, Read read) -> decltype(read()) {
  try {
    return read();
  } catch (const std::bad_alloc&) {
  } catch (const std::length_error&) {
  }
  return Error{what + ": damaged, or it needs more memory than there is"};
}

// Streams of the C++ library catch what is thrown while they read or write: a lack of memory would pass for a
// short text. Makes this one throw it on. Not for a file whose reading may fail.
template <class Stream>
void let_exceptions_through(Stream& stream) {
  stream.exceptions(Stream::badbit);
}

}  // namespace cropdl
