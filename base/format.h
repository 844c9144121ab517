// Lines and texts put together: formatted("rank {} of {}", rank, ranks). The words are fmt's, checked by the
// compiler. Not fmt::format itself: Debian has fmt as a shared library, which the lower half and the static
// cropdl-run must not need, or in headers, which cost every file that formats something three seconds; so one
// file has it all. Any thread; LH and tools.
#pragma once

#include <fmt/core.h>

#include <string>

namespace cropdl {

std::string formatted_with(fmt::string_view text, fmt::format_args arguments);

template <class... A>
std::string formatted(fmt::format_string<A...> text, A&&... arguments) {
  return formatted_with(text, fmt::make_format_args(arguments...));
}

}  // namespace cropdl
