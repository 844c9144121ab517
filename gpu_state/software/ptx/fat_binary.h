// The container that nvcc puts device code into (.nv_fatbin, --fatbin): entries of PTX and of NVIDIA's
// machine code for several architectures. Any thread; everything is checked against the size of what is
// given. NVIDIA documents no format: the facts are from dumps of what nvcc 13.0's fatbinary writes, all
// numbers are little endian.
//
// Header: u32 magic ba55ed50, u16 version 1, u16 size of the header (16), u64 size of what follows.
// Entry:  00 u16 kind            04 u32 size of this header   1c u32 architecture: 75, 90
//         02 u16 version 0101    08 u64 size of the payload,  20 u32 offset, 24 u32 size of the name
//         14 u32 where the           padded to 8 (the next    28 u64 flags
//            options' header is      entry follows)           38 u64 size when it is decompressed
//                                10 u32 size compressed       options' header: u32 offset, u32 size
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace cropdl::ptx {

struct Capability {
  int major = 0, minor = 0;
};

struct Entry {
  enum class Kind : uint8_t { kPtx, kMachineCode, kLinkTimeCode, kOther };
  Kind kind = Kind::kOther;
  int number = 0;                      // the kind's number in the file
  int architecture = 0;                // 75: 10 * major + minor
  char suffix = 0;                     // 'a' of sm_90a, 'f' of sm_100f, or 0
  uint64_t flags = 0;                  // 0x2000: LZ4, 0x8000: zstd, 0x100000: a, 0x200000: f
  std::string_view name, options;      // of the source file; "--compile-only " with -rdc
  std::span<const std::byte> payload;  // still compressed
  uint64_t size = 0;                   // decompressed
  bool is_lz4 = false, is_zstd = false;
};

constexpr uint32_t kFatBinaryMagic = 0xba55ed50;

// The bytes of the fat binary that starts here, by its header. The caller guarantees that the 16 bytes of the
// header are readable; a damaged header may state any size.
Result<std::span<const std::byte>> fat_binary_at(const void* address);

// All entries, in order; views into the bytes.
Result<std::vector<Entry>> entries_of(std::span<const std::byte> fat_binary);

// The PTX of an entry of that kind, decompressed.
Result<std::string> text_of(const Entry& entry);

// The best PTX for a device of that capability: the highest architecture up to its own. Architectures with an
// `a` match only that device, those with an `f` only the same major number. Null: none.
const Entry* best_ptx(const std::vector<Entry>& entries, Capability capability);

// For users: "PTX compute_75, machine code sm_90".
std::string listed(const std::vector<Entry>& entries);

}  // namespace cropdl::ptx
