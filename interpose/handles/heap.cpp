// See heap.h. Block sizes are powers of two from 32 bytes on, cut from the heap's top; one free list per
// size. Blocks of a page or more are page-aligned. Rounding wastes only address space.
#include "interpose/handles/heap.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/page.h"
#include "interpose/handles/spin_lock.h"
#include "interpose/seam/layout.h"

namespace cropdl::handles {
namespace {

constexpr uint64_t kMagic = 0x70'61'65'68'6c'64'70'63;  // "cpdlheap"
constexpr uint32_t kVersion = 1;
constexpr size_t kBlockHeader = 16;  // keeps user data 16-byte aligned
constexpr unsigned kSmallest = 5;    // 32 bytes: a header and one cache-line quarter
constexpr unsigned kClasses = 40;    // up to 2^39 bytes, more than the heap has

struct Header {
  uint64_t magic;
  uint32_t version;
  SpinLock lock;
  uint64_t top;  // first address never given out
  uint64_t blocks;
  uint64_t free[kClasses];  // by log2 of the block's size: first free block, linked through their first word
  uint64_t roots[kLibraries][kRoots];
  uint64_t mapped;  // first address without memory; 0: kHeapEnd, as in older images
};
static_assert(sizeof(Header) <= kPage);

struct Block {
  uint64_t size_class;  // log2 of the size, header included
  uint64_t in_use;      // kInUse, else 0: a double free is ignored
  uint64_t next;        // while free
};
constexpr uint64_t kInUse = 0x6573'7520'6e69'2021;

Header* header() { return reinterpret_cast<Header*>(seam::kHeapBegin); }

unsigned class_of(size_t bytes) {
  unsigned c = kSmallest;
  while ((size_t{1} << c) < bytes + kBlockHeader) ++c;
  return c;
}

// Maps memory up to `end`.
bool map_up_to(Header* h, uint64_t end) {
  if (h->mapped == 0 || end <= h->mapped) return true;
  const uint64_t wanted = std::min<uint64_t>((end + kHeapStep - 1) & ~(kHeapStep - 1), seam::kHeapEnd);
  const void* at = mmap(reinterpret_cast<void*>(h->mapped), wanted - h->mapped, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
  // EEXIST: the loader or the restorer has already mapped this range.
  if (at == MAP_FAILED && errno != EEXIST) return false;
  h->mapped = wanted;
  return true;
}

uint64_t take_from_top(Header* h, size_t size, size_t alignment) {
  const uint64_t at = (h->top + alignment - 1) & ~(uint64_t{alignment} - 1);
  if (size > seam::kHeapEnd - at || !map_up_to(h, at + size)) return 0;
  h->top = at + size;
  return at;
}

}  // namespace

void heap_format() {
  Header* h = header();
  *h = Header{};
  h->magic = kMagic;
  h->version = kVersion;
  h->top = seam::kHeapBegin + kPage;
  h->mapped = seam::kHeapBegin + kHeapStep;
}

bool heap_exists() { return header()->magic != 0; }

const char* heap_check() {
  Header* h = header();
  if (h->magic != kMagic) return "the persistent heap is not there or damaged";
  if (h->version > kVersion)
    return "the persistent heap was written by a newer CropDL; restart it with that one";
  if (h->top < seam::kHeapBegin + kPage || h->top > seam::kHeapEnd) return "the persistent heap is damaged";
  h->lock.unlock();
  return nullptr;
}

void* heap_allocate(size_t bytes) {
  Header* h = header();
  if (bytes > seam::kHeapEnd - seam::kHeapBegin) return nullptr;
  const unsigned c = class_of(bytes);
  const size_t size = size_t{1} << c;
  Block* block = nullptr;
  bool recycled = false;
  {
    SpinGuard guard(h->lock);
    if (h->free[c]) {
      block = reinterpret_cast<Block*>(h->free[c]);
      h->free[c] = block->next;
      recycled = true;
    } else {
      block = reinterpret_cast<Block*>(take_from_top(h, size, size < kPage ? 32 : kPage));
      if (!block) return nullptr;
    }
    ++h->blocks;
  }
  char* user = reinterpret_cast<char*>(block) + kBlockHeader;
  // Fresh memory is zero; a recycled large block kept only its first page.
  if (recycled) memset(user, 0, (size < kPage ? size : kPage) - kBlockHeader);
  block->size_class = c;
  block->in_use = kInUse;
  return user;
}

void heap_free(void* pointer) {
  if (!pointer) return;
  Header* h = header();
  Block* block = reinterpret_cast<Block*>(static_cast<char*>(pointer) - kBlockHeader);
  if (block->in_use != kInUse) return;
  const unsigned c = static_cast<unsigned>(block->size_class);
  const size_t size = size_t{1} << c;
  block->in_use = 0;
  char* const rest = reinterpret_cast<char*>(block) + kPage;
  if (size > kPage && madvise(rest, size - kPage, MADV_DONTNEED) != 0)
    memset(rest, 0, size - kPage);  // the program has locked its memory (mlockall)
  SpinGuard guard(h->lock);
  block->next = h->free[c];
  h->free[c] = reinterpret_cast<uint64_t>(block);
  --h->blocks;
}

void* heap_reserve(size_t bytes) {
  Header* h = header();
  SpinGuard guard(h->lock);
  return reinterpret_cast<void*>(take_from_top(h, page_up(bytes), kPage));
}

uint64_t heap_root(unsigned library, Root root) { return header()->roots[library][root]; }
void heap_set_root(unsigned library, Root root, void* object) {
  header()->roots[library][root] = reinterpret_cast<uint64_t>(object);
}
uint64_t heap_blocks() { return header()->blocks; }

}  // namespace cropdl::handles
