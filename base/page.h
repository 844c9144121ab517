// The unit in which the kernel maps memory on x86-64. A constant alone: code of either half may include this.
#pragma once

#include <cstddef>

namespace cropdl {

inline constexpr size_t kPage = 4096;  // bytes

}  // namespace cropdl
