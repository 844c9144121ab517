// Formats texts: formatted("rank {} of {}", rank, ranks). The syntax is fmt's, checked by the compiler. Only
// one file compiles fmt: Debian has a shared library, which the lower half and the static cropdl-run must not
// need, or headers, which add three seconds to every file that formats. LH and tools; any thread.
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
