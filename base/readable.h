// Reading memory that may not be readable, without a signal: a page beyond the end of a mapped file, one that
// a device cannot deliver, a guard page. The kernel copies it for us by pwrite(2), which then says EFAULT; no
// sandbox forbids that, unlike process_vm_readv(2). Lower half (LH FS base) and tests; an object is used by
// one thread at a time.
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

  // Where the first page of [begin, end) that cannot be read begins, or `end`. Page-aligned addresses.
  uint64_t probe(uint64_t begin, uint64_t end) const;

  // A copy of the bytes at `begin`, nullptr if not all can be read. It lies at `offset` of a buffer of kCopy
  // bytes and is valid until that part is used again.
  static constexpr uint64_t kCopy = 256 << 10;
  const char* copy(uint64_t begin, uint64_t bytes, uint64_t offset = 0) const;

 private:
  Descriptor file_;  // of memory; its pages are at copy_
  char* copy_ = nullptr;
};

}  // namespace cropdl
