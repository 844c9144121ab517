#include "gpu_state/software/device/area.h"

#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>
#include <vector>

#include "base/format.h"
#include "base/say.h"
#include "gpu_state/software/settings/settings.h"

namespace cropdl::device {

namespace {

// A process can have some 65000 mappings, so large areas are made of fewer mappings, from a larger file.
constexpr uint64_t kLarge = uint64_t{128} << 20, kLargePiece = uint64_t{32} << 20;
// from this number of mappings on, smaller allocations are made like this too
constexpr uint64_t kManyPieces = 2000;

void* reserve(uint64_t at, uint64_t size, int fixed) {
  void* got = ::mmap(reinterpret_cast<void*>(at), size, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | fixed, -1, 0);
  return got == MAP_FAILED ? nullptr : got;
}

void write_pattern(std::byte* to, uint64_t size) {
  const uint64_t two = uint64_t{kPattern} << 32 | kPattern;
  uint64_t done = 0;
  for (; done + 8 <= size; done += 8) std::memcpy(to + done, &two, 8);
  std::memcpy(to + done, &two, size - done);
}

// Many times a device's memory, so that freed addresses stay unused for long and small holes do not matter.
uint64_t addresses_each(const settings::Settings& all) {
  uint64_t each = (all.memory + kPage - 1) / kPage * kPage * 64;
#ifdef __SANITIZE_THREAD__
  const uint64_t most = uint64_t{256} << 30;  // ThreadSanitizer leaves a program less than 2 TiB
#else
  const uint64_t most = uint64_t{16} << 40;  // of a process's 128 TiB
#endif
  while (each * static_cast<uint64_t>(all.devices + 1) > most && each > 4 * all.memory) each /= 2;
  return each;
}

}  // namespace

Area& Area::get() {
  static Area* kArea = new Area;
  return *kArea;
}

Area::Area() {
  const settings::Settings& all = settings::settings();
  each_ = addresses_each(all);
  const uint64_t size = each_ * static_cast<uint64_t>(all.devices + 1);
  // The system's choice varies between processes, unless randomisation is off (as in debuggers): so go down
  // from there by a random number of gigabytes.
  uint64_t random = 0;
  if (::getrandom(&random, sizeof random, 0) != sizeof random) random = static_cast<uint64_t>(::getpid());
  const uint64_t slack = kPage * (1 + random % 65536);
  auto* room = static_cast<std::byte*>(reserve(0, size + slack + kPage, 0));
  if (room) {
    const uint64_t first = reinterpret_cast<uint64_t>(room);
    begin_ = (first + kPage - 1) / kPage * kPage;
    end_ = begin_ + size;
    if (begin_ > first) ::munmap(room, begin_ - first);
    ::munmap(reinterpret_cast<void*>(end_), first + size + slack + kPage - end_);
    shadow_ = static_cast<uint8_t*>(reserve(0, size / 8, 0));
    owners_ = static_cast<void**>(reserve(0, size / kPage * sizeof(void*), 0));
  }
  if (!room || !shadow_ || !owners_) {
    say(
        formatted("software GPU: {} GiB of addresses cannot be had ({}): is there a limit on addresses "
                  "(ulimit -v), or vm.overcommit_memory=2?",
                  size >> 30, errno_text(errno)));
    std::_Exit(1);
  }
  ::madvise(shadow_, size / 8, MADV_DONTDUMP);
  if (!all.pattern) return;
  pattern_ = move_high(Descriptor(::memfd_create("software-gpu-pattern", MFD_CLOEXEC)));
  if (!pattern_ || !write_pattern_file(kPage)) pattern_ = {};
}

bool Area::write_pattern_file(uint64_t size) {
  std::vector<std::byte> bytes(kPage);
  write_pattern(bytes.data(), bytes.size());
  for (; pattern_size_ < size; pattern_size_ += kPage)
    if (::pwrite(pattern_.fd(), bytes.data(), bytes.size(), static_cast<off_t>(pattern_size_)) !=
        static_cast<ssize_t>(bytes.size()))
      return false;
  return true;
}

void Area::open(uint64_t begin, uint64_t size) {
  uint8_t* granules = shadow_ + (begin - begin_) / 8;
  std::memset(granules, 8, size / 8);
  if (size % 8) granules[size / 8] = static_cast<uint8_t>(size % 8);
}

void Area::close(uint64_t begin, uint64_t size) {
  uint8_t* granules = shadow_ + (begin - begin_) / 8;
  const uint64_t count = (size + 7) / 8;
  constexpr uint64_t kMany = 1 << 20;
  if (count < kMany) {
    std::memset(granules, 0, count);
    return;
  }
  // Whole pages of the shadow read as zeros after they are returned.
  const uint64_t from = (reinterpret_cast<uint64_t>(granules) + 4095) / 4096 * 4096;
  const uint64_t to = reinterpret_cast<uint64_t>(granules + count) / 4096 * 4096;
  std::memset(granules, 0, from - reinterpret_cast<uint64_t>(granules));
  ::madvise(reinterpret_cast<void*>(from), to - from, MADV_DONTNEED);
  std::memset(reinterpret_cast<void*>(to), 0, reinterpret_cast<uint64_t>(granules + count) - to);
}

bool Area::accessible(uint64_t begin, uint64_t size) const {
  if (size == 0) return true;
  if (!contains(begin) || size > end_ - begin) return false;
  const uint8_t* granule = shadow_ + (begin - begin_) / 8;
  const uint64_t last = (begin + size - 1 - begin_) / 8;
  const uint8_t* last_granule = shadow_ + last;
  const uint64_t needed = (begin + size - 1) % 8 + 1;
  if (*last_granule < needed) return false;
  static constexpr auto kFull = [] {
    struct {
      uint8_t bytes[4096];
    } full{};
    for (uint8_t& byte : full.bytes) byte = 8;
    return full;
  }();
  while (granule < last_granule) {
    const size_t count = std::min<size_t>(last_granule - granule, sizeof kFull.bytes);
    if (std::memcmp(granule, kFull.bytes, count) != 0) return false;
    granule += count;
  }
  return true;
}

void Area::make_fresh(uint64_t begin, uint64_t size) {
  if (settings::settings().pattern) return fill_with_pattern(begin, size);
  constexpr uint64_t kFew = 64 << 10, kSystemPage = 4096;  // below this size, writing is faster
  const uint64_t end = begin + size;
  const uint64_t from = (begin + kSystemPage - 1) / kSystemPage * kSystemPage;
  const uint64_t to = end / kSystemPage * kSystemPage;
  if (size < kFew || ::madvise(reinterpret_cast<void*>(from), to - from, MADV_DONTNEED) != 0) {
    std::memset(reinterpret_cast<void*>(begin), 0, size);
    return;
  }
  std::memset(reinterpret_cast<void*>(begin), 0, from - begin);
  std::memset(reinterpret_cast<void*>(to), 0, end - to);
}

void Area::make_freed(uint64_t begin, uint64_t size) {
  if (settings::settings().pattern) fill_with_pattern(begin, size);
}

void Area::fill_with_pattern(uint64_t begin, uint64_t size) {
  uint64_t at = begin, end = begin + size;
  if (begin % kPage == 0 && pattern_) {
    if (size >= kLarge || pieces_ >= kManyPieces) (void)write_pattern_file(kLargePiece);
    while (at + kPage <= end) {
      const uint64_t piece = std::min(pattern_size_, (end - at) / kPage * kPage);
      if (::mmap(reinterpret_cast<void*>(at), piece, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE, pattern_.fd(), 0) == MAP_FAILED)
        break;  // the process has too many mappings: write the rest
      at += piece;
      ++pieces_;
    }
  }
  write_pattern(reinterpret_cast<std::byte*>(at), end - at);
}

void Area::give_back(uint64_t begin, uint64_t size) {
  if (!reserve(begin, size, MAP_FIXED)) ::madvise(reinterpret_cast<void*>(begin), size, MADV_DONTNEED);
}

}  // namespace cropdl::device
