// One block of LZ4, as nvcc --compress-mode=speed makes: thirty lines, not worth a library in every process.
// Any thread. Source: lz4's "LZ4 Block Format Description".
#pragma once

#include <cstddef>
#include <span>

namespace cropdl {

// Whether the block is sound and fills `into` exactly.
bool decompress_lz4(std::span<const std::byte> block, std::span<std::byte> into);

}  // namespace cropdl
