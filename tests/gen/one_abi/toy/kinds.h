// The toy's one kind of object.
#pragma once

#include <cstdint>

namespace cropdl::one_abi::kind {
inline constexpr uint32_t Thing = 2;
}
