// Quantities for human readers. Pure; any thread.
#pragma once

#include <cstdint>
#include <string>

namespace cropdl {

// "1.5 GB": decimal units, as for disks.
std::string amount(uint64_t bytes);

// "0.34 s", "25 s", "40 min", "3.5 h", "4 days".
std::string in_words(double seconds);

}  // namespace cropdl
