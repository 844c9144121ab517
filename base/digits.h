// Pure; any thread.
#pragma once

#include <cstddef>
#include <string>

namespace cropdl {

// Whether the text is one to `most` decimal digits, and nothing else.
inline bool is_number(const std::string& text, size_t most) {
  return !text.empty() && text.size() <= most && text.find_first_not_of("0123456789") == std::string::npos;
}

// Likewise, and not 0.
inline bool is_positive_number(const std::string& text, size_t most) {
  return is_number(text, most) && text.find_first_not_of('0') != std::string::npos;
}

}  // namespace cropdl
