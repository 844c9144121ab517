// The toy's only kind of object.
#pragma once

#include <cstdint>

namespace cropdl::one_abi::kind {
inline constexpr uint32_t Thing = 2;
}
