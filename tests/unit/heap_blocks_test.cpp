// links: cropdl_handles
// Guarantees of the persistent heap. Runs in any process: the range is mapped here, as the loader would.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <vector>

#include "interpose/handles/heap.h"
#include "interpose/seam/layout.h"

using namespace cropdl;

class Heap : public ::testing::Test {
 protected:
  void SetUp() override {
    void* at = mmap(reinterpret_cast<void*>(seam::kHeapBegin), seam::kHeapEnd - seam::kHeapBegin,
                    PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
    ASSERT_EQ(at, reinterpret_cast<void*>(seam::kHeapBegin));
    handles::heap_format();
  }
};

TEST_F(Heap, BlocksAreZeroAlignedAndDoNotOverlap) {
  std::mt19937 random(1);
  struct Held {
    unsigned char* at;
    size_t bytes;
    unsigned char mark;
  };
  std::vector<Held> held;
  for (int step = 0; step < 20000; ++step) {
    if (held.size() > 200 || (!held.empty() && random() % 2)) {
      const size_t i = random() % held.size();
      for (size_t b = 0; b < held[i].bytes; ++b) ASSERT_EQ(held[i].at[b], held[i].mark);
      handles::heap_free(held[i].at);
      held[i] = held.back();
      held.pop_back();
    } else {
      const size_t bytes = random() % 20 ? random() % 300 : random() % 40000;
      auto* at = static_cast<unsigned char*>(handles::heap_allocate(bytes));
      ASSERT_NE(at, nullptr);
      ASSERT_EQ(reinterpret_cast<uintptr_t>(at) % 16, 0u);
      for (size_t b = 0; b < bytes; ++b) ASSERT_EQ(at[b], 0);
      const unsigned char mark = static_cast<unsigned char>(random() % 255 + 1);
      memset(at, mark, bytes);
      held.push_back({at, bytes, mark});
    }
  }
  EXPECT_EQ(handles::heap_blocks(), held.size());
}

TEST_F(Heap, AFreedLargeBlockIsZeroAgainThoughTheProgramLocksItsMemory) {
  const size_t bytes = 20'000;
  auto* at = static_cast<char*>(handles::heap_allocate(bytes));
  ASSERT_EQ(mlock(at, bytes), 0);
  memset(at, 1, bytes);
  handles::heap_free(at);
  ASSERT_EQ(handles::heap_allocate(bytes), at);
  EXPECT_EQ(std::count(at, at + bytes, 0), static_cast<std::ptrdiff_t>(bytes));
  munlock(at, bytes);
}

TEST_F(Heap, AFreedLargeBlockGivesItsPagesBack) {
  const size_t bytes = 8 << 20;
  auto* at = static_cast<char*>(handles::heap_allocate(bytes));
  memset(at, 1, bytes);
  auto resident = [&] {
    const uintptr_t begin = (reinterpret_cast<uintptr_t>(at) + 8191) & ~uintptr_t{4095};
    std::vector<unsigned char> pages(1024);
    EXPECT_EQ(mincore(reinterpret_cast<void*>(begin), pages.size() * 4096, pages.data()), 0);
    int n = 0;
    for (unsigned char p : pages) n += p & 1;
    return n;
  };
  EXPECT_GT(resident(), 1000);
  handles::heap_free(at);
  EXPECT_EQ(resident(), 0);
}

TEST_F(Heap, ADoubleFreeChangesNothing) {
  void* a = handles::heap_allocate(100);
  handles::heap_free(a);
  handles::heap_free(a);
  EXPECT_EQ(handles::heap_blocks(), 0u);
  EXPECT_NE(handles::heap_allocate(100), handles::heap_allocate(100));
}

TEST_F(Heap, ADamagedHeaderIsRefused) {
  EXPECT_EQ(handles::heap_check(), nullptr);
  *reinterpret_cast<uint64_t*>(seam::kHeapBegin) ^= 1;
  EXPECT_NE(handles::heap_check(), nullptr);
}

TEST_F(Heap, RunsOutOfAddressesWithoutHarm) {
  EXPECT_EQ(handles::heap_allocate(size_t{1} << 40), nullptr);
  EXPECT_NE(handles::heap_allocate(64), nullptr);
}
