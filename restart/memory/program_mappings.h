// Which mappings are the program's: the window except the control page, memory below 4 GiB (a non-PIE
// program), and memory that the program placed elsewhere itself. LH; the main thread while the program is
// stopped, or any thread where a function says so.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "restart/memory/mappings.h"

namespace cropdl::host_memory {

// The program's part of all mappings, which are in ascending order. Any thread.
std::vector<Mapping> program_part(const std::vector<Mapping>& all);

// Drops extents that are not mapped from the table of what the program placed elsewhere. `all` has every
// mapping. If the table has too few entries for all parts, it stays unchanged.
void drop_what_is_not_mapped(const std::vector<Mapping>& all);

std::string range(uint64_t begin, uint64_t end);  // as text
inline void* pointer(uint64_t address) { return reinterpret_cast<void*>(address); }

}  // namespace cropdl::host_memory
