#include "base/lz4.h"

#include <cstdint>
#include <cstring>

namespace cropdl {
namespace {

// A length of 15 goes on in bytes, the last of which is below 255.
bool lengthen(std::span<const std::byte> block, size_t* at, size_t* length) {
  if (*length != 15) return true;
  uint8_t byte = 255;
  while (byte == 255) {
    if (*at >= block.size()) return false;
    byte = static_cast<uint8_t>(block[(*at)++]);
    *length += byte;
  }
  return true;
}

}  // namespace

bool decompress_lz4(std::span<const std::byte> block, std::span<std::byte> into) {
  size_t at = 0, done = 0;
  while (at < block.size()) {
    auto token = static_cast<uint8_t>(block[at++]);
    size_t literals = token >> 4, match = token & 15;
    if (!lengthen(block, &at, &literals)) return false;
    if (literals > block.size() - at || literals > into.size() - done) return false;
    if (literals) std::memcpy(into.data() + done, block.data() + at, literals);
    at += literals;
    done += literals;
    if (at == block.size()) break;  // the last sequence has no match
    if (block.size() - at < 2) return false;
    size_t back = static_cast<size_t>(block[at]) | static_cast<size_t>(block[at + 1]) << 8;
    at += 2;
    if (!lengthen(block, &at, &match)) return false;
    match += 4;
    if (back == 0 || back > done || match > into.size() - done) return false;
    for (size_t i = 0; i < match; i++, done++) into[done] = into[done - back];  // they may overlap
  }
  return done == into.size();
}

}  // namespace cropdl
