#include "base/readable.h"

#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/page.h"

namespace cropdl {

ReadableMemory::ReadableMemory() : file_(move_high(Descriptor(::memfd_create("cropdl-copy", MFD_CLOEXEC)))) {
  if (!file_ || ::ftruncate(file_.fd(), kCopy) != 0) return;
  void* at = ::mmap(nullptr, kCopy, PROT_READ, MAP_SHARED, file_.fd(), 0);
  if (at != MAP_FAILED) copy_ = static_cast<char*>(at);
}

ReadableMemory::~ReadableMemory() {
  if (copy_ != nullptr) ::munmap(copy_, kCopy);
}

uint64_t ReadableMemory::probe(uint64_t begin, uint64_t end) const {
  constexpr int kAtOnce = 1024;  // IOV_MAX
  iovec bytes[kAtOnce];
  for (uint64_t a = begin; a < end;) {
    int n = 0;
    for (uint64_t page = a; page < end && n < kAtOnce; page += kPage)
      bytes[n++] = {reinterpret_cast<void*>(page), 1};
    const ssize_t got = ::pwritev(file_.fd(), bytes, n, 0);
    if (got <= 0) return a;
    a += static_cast<uint64_t>(got) * kPage;  // a short write can have another cause than the page behind
  }
  return end;
}

const char* ReadableMemory::copy(uint64_t begin, uint64_t bytes, uint64_t offset) const {
  if (copy_ == nullptr || offset > kCopy || bytes > kCopy - offset) return nullptr;
  for (uint64_t done = 0; done < bytes;) {
    const ssize_t n = ::pwrite(file_.fd(), reinterpret_cast<const void*>(begin + done), bytes - done,
                               static_cast<off_t>(offset + done));
    if (n <= 0) return nullptr;
    done += static_cast<uint64_t>(n);
  }
  return copy_ + offset;
}

}  // namespace cropdl
