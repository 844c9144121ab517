// The page size of x86-64. Freestanding: code of either half may include this file.
#pragma once

#include <cstddef>
#include <cstdint>

namespace cropdl {

inline constexpr size_t kPage = 4096;  // bytes

constexpr uint64_t page_down(uint64_t address) { return address & ~uint64_t{kPage - 1}; }
constexpr uint64_t page_up(uint64_t address) { return page_down(address + kPage - 1); }

}  // namespace cropdl
