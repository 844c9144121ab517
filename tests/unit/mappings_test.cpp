// links: cropdl_rank
// What is found out about mappings, and what refuses them. Any process.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

#include "base/readable.h"
#include "interpose/lower/mapped_files.h"
#include "interpose/lower/mapping_flags.h"
#include "interpose/lower/mappings.h"

namespace cropdl::lower {
namespace {

constexpr uint64_t kPage = 4096;

struct Memory {
  explicit Memory(uint64_t pages, int fd = -1)
      : bytes(pages * kPage),
        at(static_cast<char*>(mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                                   MAP_PRIVATE | (fd < 0 ? MAP_ANONYMOUS : 0), fd, 0))) {}
  ~Memory() { munmap(at, bytes); }
  uint64_t begin() const { return reinterpret_cast<uint64_t>(at); }
  const uint64_t bytes;
  char* const at;
};

struct File {  // of `pages` pages, without a name
  explicit File(uint64_t pages) : stream(tmpfile()) {
    EXPECT_EQ(ftruncate(fileno(stream), static_cast<off_t>(pages * kPage)), 0);
  }
  ~File() { fclose(stream); }
  FILE* const stream;
};

Mapping mapping_at(uint64_t address) {
  for (const Mapping& m : read_mappings_and_flags())
    if (m.begin <= address && address < m.end) return m;
  return {};
}

TEST(Mappings, EveryTouchedPageOfThousandsIsFoundOnce) {
  Memory memory(4000);
  madvise(memory.at, memory.bytes, MADV_NOHUGEPAGE);
  for (uint64_t i = 0; i < 2000; ++i) memory.at[2 * i * kPage] = 1;
  const Pages pages = pages_of(memory.begin(), memory.begin() + memory.bytes);
  ASSERT_EQ(pages.present.size(), 2000u);
  for (uint64_t i = 0; i < 2000; ++i) {
    EXPECT_EQ(pages.present[i].begin, memory.begin() + 2 * i * kPage);
    EXPECT_EQ(pages.present[i].end, memory.begin() + (2 * i + 1) * kPage);
  }
}

TEST(Mappings, PagesBeyondAFilesEndAreNotReadAndDoNotKill) {
  File file(3);
  Memory memory(6, fileno(file.stream));
  std::vector<PageRun> runs;
  const ReadableMemory readable;
  ASSERT_TRUE(readable_pages(readable, memory.begin(), memory.begin() + memory.bytes, &runs));
  EXPECT_EQ(runs, (std::vector<PageRun>{{memory.begin(), memory.begin() + 3 * kPage}}));
  EXPECT_NE(readable.copy(memory.begin(), 3 * kPage), nullptr);
  ASSERT_EQ(ftruncate(fileno(file.stream), kPage), 0);
  EXPECT_EQ(readable.copy(memory.begin(), 3 * kPage), nullptr);
  EXPECT_NE(readable.copy(memory.begin(), kPage), nullptr);
}

TEST(Mappings, HolesBetweenReadablePagesAreFound) {
  Memory memory(64);
  memset(memory.at, 1, memory.bytes);
  mprotect(memory.at + 7 * kPage, kPage, PROT_NONE);
  mprotect(memory.at + 63 * kPage, kPage, PROT_NONE);
  std::vector<PageRun> runs;
  ASSERT_TRUE(readable_pages(ReadableMemory(), memory.begin(), memory.begin() + memory.bytes, &runs));
  EXPECT_EQ(runs, (std::vector<PageRun>{{memory.begin(), memory.begin() + 7 * kPage},
                                        {memory.begin() + 8 * kPage, memory.begin() + 63 * kPage}}));
}

TEST(MappingFlags, EveryFlagOfThisProcessIsKnown) {
  for (const Mapping& m : read_mappings_and_flags()) {
    if (m.path.starts_with("[")) continue;
    EXPECT_EQ(flags_refusal(m), "") << m.flags;
  }
}

TEST(MappingFlags, UnknownOnesAreRefusedByName) {
  Mapping m;
  m.flags = "rd wr mr mw me zz ";
  EXPECT_NE(flags_refusal(m).find("'zz'"), std::string::npos) << flags_refusal(m);
  m.flags = "rd ?? ";
  EXPECT_NE(flags_refusal(m).find("'?"
                                  "?'"),
            std::string::npos)
      << flags_refusal(m);
  m.flags = "";
  EXPECT_NE(flags_refusal(m), "");
}

TEST(MappingFlags, WhatCannotBeSavedIsRefusedInWords) {
  for (const auto& [flag, word] : {std::pair{"ht", "hugetlbfs"},
                                   {"io", "device"},
                                   {"pf", "device"},
                                   {"um", "userfaultfd"},
                                   {"uw", "userfaultfd"},
                                   {"ui", "userfaultfd"},
                                   {"sf", "MAP_SYNC"},
                                   {"ss", "shadow stack"},
                                   {"de", "asynchronous"},
                                   {"mm", "device"}}) {
    Mapping m;
    m.flags = std::string("rd wr ") + flag + " ";
    EXPECT_NE(flags_refusal(m).find(word), std::string::npos) << flag << ": " << flags_refusal(m);
  }
  Mapping m;
  m.flags = "rd wr ";
  m.protection_key = 3;
  EXPECT_NE(flags_refusal(m).find("protection key"), std::string::npos);
}

TEST(MappingFlags, AdviceComesBack) {
  Memory memory(8), again(8);
  madvise(memory.at, memory.bytes, MADV_DONTFORK);
  madvise(memory.at, memory.bytes, MADV_DONTDUMP);
  madvise(memory.at, memory.bytes, MADV_RANDOM);
  const std::string kept = flags_to_keep(mapping_at(memory.begin()));
  EXPECT_TRUE(has_flag(kept, "dc") && has_flag(kept, "dd") && has_flag(kept, "rr")) << kept;
  ASSERT_TRUE(advise_mapping(again.begin(), again.begin() + again.bytes, kept));
  EXPECT_EQ(flags_to_keep(mapping_at(again.begin())), kept);
}

TEST(MappedFiles, SharedMemoryThatMayBecomeWritableIsRefused) {
  File file(1);
  void* p = mmap(nullptr, kPage, PROT_READ, MAP_SHARED, fileno(file.stream), 0);
  EXPECT_NE(file_refusal(mapping_at(reinterpret_cast<uint64_t>(p))), "");
  munmap(p, kPage);
  p = mmap(nullptr, kPage, PROT_NONE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  EXPECT_NE(file_refusal(mapping_at(reinterpret_cast<uint64_t>(p))), "");
  munmap(p, kPage);
}

}  // namespace
}  // namespace cropdl::lower
