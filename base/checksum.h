// XXH3-64, the checksum of all stored data, in the fastest form that this CPU has. It detects accidents, not
// attacks: images belong to the user, in a 0700 directory. LH (LH FS base) and tools; any thread.
#pragma once

#include <sys/uio.h>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace cropdl {

uint64_t checksum(const void* data, size_t bytes);
inline uint64_t checksum(std::string_view text) { return checksum(text.data(), text.size()); }

// The checksum of the concatenation of the pieces.
uint64_t checksum(std::span<const iovec> pieces);

// Returns whether all 4096 bytes at `page` (4096-aligned) are zero.
bool is_zero_page(const void* page);

}  // namespace cropdl
