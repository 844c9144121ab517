// Reads memory that may be unreadable, without a signal: a page beyond a mapped file's end, one that a device
// cannot deliver, a guard page. pwrite(2) copies it or returns EFAULT; no sandbox forbids that, unlike
// process_vm_readv(2). LH (LH FS base) and tests; one thread at a time per object.
#pragma once

#include <cstdint>

#include "base/file.h"

namespace cropdl {

class ReadableMemory {
 public:
  ReadableMemory();
  ~ReadableMemory();
  ReadableMemory(const ReadableMemory&) = delete;
  ReadableMemory& operator=(const ReadableMemory&) = delete;
  explicit operator bool() const { return copy_ != nullptr; }

  // Returns the begin of the first unreadable page of [begin, end), or `end`. The addresses are page-aligned.
  uint64_t probe(uint64_t begin, uint64_t end) const;

  // Copies the bytes at `begin` to `offset` of a buffer of kCopy bytes, and returns the copy; nullptr if not
  // all can be read. The copy is valid until that part of the buffer is used again.
  static constexpr uint64_t kCopy = 256 << 10;
  const char* copy(uint64_t begin, uint64_t bytes, uint64_t offset = 0) const;

 private:
  Descriptor file_;  // a memfd, mapped at copy_
  char* copy_ = nullptr;
};

}  // namespace cropdl
