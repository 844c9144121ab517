// Compression of an image's chunks by zstd (cropdl-run --compress, docs/saving.md). LH (LH FS base) and
// tools; one thread at a time per object. Throws nothing but a lack of memory.
#pragma once

#include <sys/uio.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "restart/chunks.h"

struct ZSTD_CCtx_s;  // zstd.h
struct ZSTD_DCtx_s;

namespace cropdl::restart {

inline constexpr double kCompressedSpeed = 200e6;  // bytes/s of one processor, at least (docs/performance.md)

class Compressor {
 public:
  Compressor();

  // `pieces`, at most kImageChunk bytes, as one zstd frame with a checksum of its own; or none if that would
  // not be shorter. Valid until the next call.
  std::span<char> compress(std::span<const iovec> pieces);

 private:
  std::unique_ptr<ZSTD_CCtx_s, size_t (*)(ZSTD_CCtx_s*)> context_;
  std::vector<char> plain_, frame_;  // as large as a chunk
};

class Decompressor {
 public:
  Decompressor();

  // Fills `pieces` with the contents of a frame as compress() makes it. False if it is none, has not exactly
  // as many bytes, or is damaged; then some may have been written.
  bool decompress(std::span<const char> frame, std::span<const iovec> pieces);

 private:
  std::unique_ptr<ZSTD_DCtx_s, size_t (*)(ZSTD_DCtx_s*)> context_;
  std::vector<char> plain_;
};

}  // namespace cropdl::restart
