// XXH3-64, the checksum of everything CropDL stores, in the fastest form this CPU has. Lower half (LH FS
// base) and tools; any thread. Detects accidents, not attackers: images are the user's own, in a 0700
// directory.
#pragma once

#include <sys/uio.h>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

namespace cropdl {

uint64_t checksum(const void* data, size_t bytes);
inline uint64_t checksum(std::string_view text) { return checksum(text.data(), text.size()); }

// The checksum of the concatenation of the pieces.
uint64_t checksum(std::span<const iovec> pieces);

// True when all of the 4096 bytes at `page` (4096-aligned) are zero.
bool is_zero_page(const void* page);

}  // namespace cropdl
