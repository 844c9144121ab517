// The page size of x86-64. Only a constant: code of either half may include this file.
#pragma once

#include <cstddef>

namespace cropdl {

inline constexpr size_t kPage = 4096;  // bytes

}  // namespace cropdl
