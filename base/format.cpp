#define FMT_HEADER_ONLY
#include <fmt/format.h>

#include "base/format.h"

namespace cropdl {

std::string formatted_with(fmt::string_view text, fmt::format_args arguments) {
  return fmt::vformat(text, arguments);
}

}  // namespace cropdl
