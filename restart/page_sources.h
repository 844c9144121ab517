// Sources of a region's pages. See restart/chunks.h.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/readable.h"
#include "restart/chunks.h"

namespace cropdl::restart {

// This process's memory at its own addresses, which must be readable.
class LivePages final : public PageSource {
 public:
  Status read(std::span<const Extent> runs, std::vector<iovec>* bytes) override;

 private:
  struct alignas(kImagePage) Block {
    char bytes[kImageChunk];  // stays in the L2 cache from copying to writing
  };
  std::unique_ptr<Block> copy_;
};

// The same for memory that may become unreadable at any time (a file's pages).
class FragilePages final : public PageSource {
 public:
  explicit FragilePages(std::string name) : name_(std::move(name)) {}
  Status read(std::span<const Extent> runs, std::vector<iovec>* bytes) override;

 private:
  std::string name_;
  ReadableMemory memory_;
};

// A regular file that is or was mapped with its byte `offset` at `begin`. Its last page is filled up with
// zeros, as by the kernel; later pages cannot be read.
class FilePages final : public PageSource {
 public:
  FilePages(const std::string& path, uint64_t begin, uint64_t offset);
  int fd() const { return file_.fd(); }  // -1: cannot be opened; read() returns the error
  Status read(std::span<const Extent> runs, std::vector<iovec>* bytes) override;

 private:
  Descriptor file_;
  std::string trouble_;
  uint64_t begin_, offset_;
  std::vector<char> buffer_;
};

}  // namespace cropdl::restart
