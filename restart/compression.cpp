#include "restart/compression.h"

#include <zstd.h>

#include <algorithm>
#include <cstring>
#include <new>

namespace cropdl::restart {

namespace {

constexpr int kLevel = 1;
constexpr char kChecksummed = 4;  // of a frame's byte 4 (RFC 8878, 3.1.1.1)

}  // namespace

Compressor::Compressor()
    : context_(ZSTD_createCCtx(), ZSTD_freeCCtx), plain_(kImageChunk), frame_(kImageChunk) {
  if (context_ == nullptr) throw std::bad_alloc();
  ZSTD_CCtx_setParameter(context_.get(), ZSTD_c_compressionLevel, kLevel);
  ZSTD_CCtx_setParameter(context_.get(), ZSTD_c_checksumFlag, 1);
}

std::span<char> Compressor::compress(std::span<const iovec> pieces) {
  const char* from = static_cast<const char*>(pieces.front().iov_base);
  const uint64_t bytes = bytes_of(pieces);
  if (pieces.size() > 1) {
    gather(pieces, plain_.data());
    from = plain_.data();
  }
  // Also an error if the frame has no room, or the context no memory: then the pages are stored as they are.
  const size_t length = ZSTD_compress2(context_.get(), frame_.data(), bytes - 1, from, bytes);
  return {frame_.data(), ZSTD_isError(length) != 0 ? 0 : length};
}

Decompressor::Decompressor() : context_(ZSTD_createDCtx(), ZSTD_freeDCtx) {
  if (context_ == nullptr) throw std::bad_alloc();
}

bool Decompressor::decompress(std::span<const char> frame, std::span<const iovec> pieces) {
  const uint64_t bytes = bytes_of(pieces);
  if (ZSTD_findFrameCompressedSize(frame.data(), frame.size()) != frame.size() ||
      (frame[4] & kChecksummed) == 0)
    return false;
  char* to = static_cast<char*>(pieces.front().iov_base);
  if (pieces.size() > 1) {
    plain_.resize(std::max<size_t>(plain_.size(), bytes));
    to = plain_.data();
  }
  // An error is more than any chunk has.
  if (ZSTD_decompressDCtx(context_.get(), to, bytes, frame.data(), frame.size()) != bytes) return false;
  if (pieces.size() > 1)
    for (const iovec& one : pieces) {
      std::memcpy(one.iov_base, to, one.iov_len);
      to += one.iov_len;
    }
  return true;
}

}  // namespace cropdl::restart
