// The file of an image that is being written: bytes are appended, from some size on by a thread beside the
// caller. LH (LH FS base) and tools; one thread at a time per object.
#pragma once

#include <sys/uio.h>

#include <cstdint>
#include <memory>
#include <span>

#include "base/file.h"

namespace cropdl::restart {

class ImageFile {
 public:
  // `by_thread`: a processor is idle, so a thread may write while the caller reads and hashes (a copy).
  ImageFile(Descriptor file, bool by_thread);
  ~ImageFile();  // waits for the thread

  // Returns 0 or the errno value of this write or of an earlier one. Consumes `pieces`.
  int append(std::span<iovec> pieces);
  // Writes what is left, then fsync and close. Returns 0 or the errno value.
  int finish();
  uint64_t bytes() const { return bytes_; }

 private:
  class Thread;
  int write(std::span<iovec> pieces, uint64_t offset);
  int end_thread();  // 0 or the errno value of one of its writes

  Descriptor file_;
  bool by_thread_;
  uint64_t bytes_ = 0;    // appended so far
  uint64_t flushed_ = 0;  // write-back started up to here; the writing thread's
  std::unique_ptr<Thread> thread_;
};

}  // namespace cropdl::restart
