// links: cropdl_host_memory
// Facts about mappings, and reasons to refuse them. Runs in any process.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/magic.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <bitset>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>

#include "base/file.h"
#include "base/readable.h"
#include "interpose/seam/extents.h"
#include "restart/memory/mapped_files.h"
#include "restart/memory/mappings.h"
#include "restart/memory/save_memory.h"

namespace cropdl::host_memory {
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
  const ReadableMemory readable;
  EXPECT_EQ(readable_pages(readable, memory.begin(), memory.begin() + memory.bytes),
            (std::vector<PageRun>{{memory.begin(), memory.begin() + 3 * kPage}}));
  EXPECT_NE(readable.copy(memory.begin(), 3 * kPage), nullptr);
  ASSERT_EQ(ftruncate(fileno(file.stream), kPage), 0);
  EXPECT_EQ(readable.copy(memory.begin(), 3 * kPage), nullptr);
  EXPECT_NE(readable.copy(memory.begin(), kPage), nullptr);
}

TEST(Mappings, PagesWrittenWithTheFilesOwnBytesAreCopies) {
  File file(6);
  Memory memory(6, fileno(file.stream));
  volatile char* const at = memory.at;
  const auto page = [&](uint64_t i) { return memory.begin() + i * kPage; };
  (void)at[0];
  at[kPage] = at[kPage];
  at[2 * kPage] = at[2 * kPage];
  at[4 * kPage] = 1;
  const auto copies = [&](FindCopies find) { return pages_of(page(0), page(6), find).copies; };
  EXPECT_EQ(copies(FindCopies::kYes), (std::vector<PageRun>{{page(1), page(3)}, {page(4), page(5)}}));
  EXPECT_TRUE(copies(FindCopies::kNo).empty());
}

TEST(MemoryState, CopiesOfAFilesPagesAreReadAsTheyWereWritten) {
  RegionState region;
  region.begin = 16 * kPage, region.end = 25 * kPage;
  region.copies = {{16 * kPage, 17 * kPage}, {19 * kPage, 21 * kPage}};
  MemoryState state;
  state.regions.push_back(region);
  const nlohmann::json text = state;
  EXPECT_EQ(text.at("regions").at(0).at("copies"), nlohmann::json({0, 1, 2, 2}));
  EXPECT_EQ(text.get<MemoryState>().regions.at(0).copies, region.copies);
}

TEST(Mappings, HolesBetweenReadablePagesAreFound) {
  Memory memory(64);
  memset(memory.at, 1, memory.bytes);
  mprotect(memory.at + 7 * kPage, kPage, PROT_NONE);
  mprotect(memory.at + 63 * kPage, kPage, PROT_NONE);
  EXPECT_EQ(readable_pages(ReadableMemory(), memory.begin(), memory.begin() + memory.bytes),
            (std::vector<PageRun>{{memory.begin(), memory.begin() + 7 * kPage},
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

TEST(MappingFlags, UnsupportedFlagsAreRefusedByName) {
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

// --- Memory that the program placed outside the window.

using seam::OutsideExtent, seam::PersistentState;

struct Table {
  explicit Table(PersistentState* s) : extents(s, [] { std::this_thread::yield(); }) {}
  std::vector<OutsideExtent> all() const {
    std::vector<OutsideExtent> found;
    for (uint32_t i = 0; i < extents.size(); ++i)
      if (extents[i].end != 0) found.push_back(extents[i]);
    return found;
  }
  seam::Extents extents;
};

constexpr uint64_t kFar = 0x2000'0000'0000;

TEST(Extents, AreTheAddedAndNotRemovedRanges) {
  const auto state = std::make_unique<PersistentState>();
  std::bitset<64> there;
  std::mt19937 random(7);
  for (int i = 0; i < 20'000; ++i) {
    const uint64_t first = random() % 64, last = first + random() % (64 - first), add = random() % 2;
    Table table(state.get());
    if (add)
      table.extents.add(kFar + first * kPage, kFar + (last + 1) * kPage);
    else
      table.extents.remove(kFar + first * kPage, kFar + (last + 1) * kPage);
    for (uint64_t page = first; page <= last; ++page) there[page] = add;
    std::bitset<64> noted;
    for (const OutsideExtent& e : table.all()) {
      for (uint64_t at = e.begin; at < e.end; at += kPage) {
        ASSERT_FALSE(noted[(at - kFar) / kPage]);  // first pass
        noted[(at - kFar) / kPage] = true;
      }
    }
    ASSERT_EQ(noted, there) << i;
  }
}

TEST(Extents, HaveRoomForAllThatAreThereAtOnce) {
  const auto state = std::make_unique<PersistentState>();
  Table table(state.get());
  const auto add = [&](uint64_t i) { table.extents.add(kFar + 2 * i * kPage, kFar + (2 * i + 1) * kPage); };
  for (uint64_t i = 0; i < 10'000; ++i) {
    add(i);
    if (i >= 100) table.extents.remove(kFar + 2 * (i - 100) * kPage, kFar + (2 * (i - 100) + 1) * kPage);
  }
  EXPECT_FALSE(table.extents.incomplete());
  EXPECT_EQ(table.all().size(), 100u);
  table.extents.clear();
  for (uint64_t i = 0; i < seam::kMaxExtents; ++i) add(i);
  for (uint64_t i = 0; i < seam::kMaxExtents; ++i) add(i);  // again
  EXPECT_FALSE(table.extents.incomplete());
  for (uint64_t i = 0; i < 10; ++i) table.extents.add(kFar + 2 * i * kPage, kFar + 2 * (i + 1) * kPage);
  EXPECT_EQ(table.all().size(), seam::kMaxExtents - 10);  // adjacent extents are merged
  for (uint64_t i = 0; i < 11; ++i) add(seam::kMaxExtents + i);
  EXPECT_TRUE(table.extents.incomplete());
  table.extents.remove(0, ~uint64_t{0});
  // and stays incomplete: the extent that found no room may still be mapped
  EXPECT_TRUE(table.extents.incomplete());
  EXPECT_TRUE(table.all().empty());
}

TEST(Extents, AreChangedByManyThreadsAtOnce) {
  const auto state = std::make_unique<PersistentState>();
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, at = kFar + t * 100 * kPage] {
      for (uint64_t i = 0; i < 5000; ++i) {
        Table(state.get()).extents.add(at, at + 9 * kPage);
        Table(state.get()).extents.remove(at + (1 + i % 7) * kPage, at + (2 + i % 7) * kPage);
        if (i != 4999) Table(state.get()).extents.remove(at, at + 9 * kPage);
      }
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(Table(state.get()).all().size(), 8u);
}

TEST(Extents, WithoutMappingsAreDroppedAtAStop) {
  const auto map_at = [](uint64_t address, size_t bytes) {
    void* const at = reinterpret_cast<void*>(address);
    return mmap(at, bytes, PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE | MAP_NORESERVE, -1, 0) == at;
  };
  const auto page = [](uint64_t i) { return kFar + i * kPage; };
  ASSERT_TRUE(map_at(seam::kState, seam::kStateSize));
  ASSERT_TRUE(map_at(page(0), 4 * kPage));
  ASSERT_TRUE(map_at(page(6), 3 * kPage));
  ASSERT_EQ(mprotect(reinterpret_cast<void*>(page(0)), kPage, PROT_NONE), 0);  // changed, but equally valid
  auto* state = seam::state();  // as left by a core that only adds
  state->outside[0] = {page(100), page(103)};
  state->outside[1] = {page(0), page(6)};
  state->outside[2] = {page(3), page(10)};
  state->extents = 3;
  const auto first = look_at_stopped_memory();
  EXPECT_TRUE(first) << first.error().message;
  std::vector<OutsideExtent> left = Table(state).all();
  ASSERT_EQ(left.size(), 2u);
  if (left[0].begin > left[1].begin) std::swap(left[0], left[1]);
  EXPECT_EQ(left[0].begin, page(0));
  EXPECT_EQ(left[0].end, page(4));
  EXPECT_EQ(left[1].begin, page(6));
  EXPECT_EQ(left[1].end, page(9));
  state->extents = seam::kMaxExtents + 1;
  const auto second = look_at_stopped_memory();
  EXPECT_TRUE(second) << second.error().message;
  EXPECT_TRUE(Table(state).extents.incomplete());
  munmap(reinterpret_cast<void*>(page(0)), 9 * kPage);
  munmap(state, seam::kStateSize);
}

// The status of `what` in its own mount namespace, where /var/lib is empty, or kNoNamespace.
constexpr int kNoNamespace = 100;
int with_an_empty_var_lib(int (*what)()) {
  const pid_t child = fork();
  if (child == 0) {
    if (unshare(CLONE_NEWNS) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) _exit(kNoNamespace);
    if (mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        mount("none", "/var/lib", "tmpfs", 0, nullptr) != 0)
      _exit(kNoNamespace);
    _exit(what());
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// The table in file `name` changes after the cut. Returns map_file_again's result and the mapped contents.
int map_a_changed_table(const char* name) {
  const int out = open(name, O_RDWR | O_CREAT, 0644), in = open(name, O_RDONLY);
  if (out < 0 || pwrite(out, "then", 4, 0) != 4 || ftruncate(out, kPage) != 0) return 10;
  void* const table = mmap(nullptr, kPage, PROT_READ, MAP_SHARED, in, 0);
  const auto at = reinterpret_cast<uint64_t>(table);
  RegionState region;
  region.begin = at;
  region.end = at + kPage;
  region.file = examine_file(mapping_at(at));
  if (mmap(table, kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != table)
    return 11;
  memcpy(table, "then", 4);
  if (pwrite(out, "now!", 4, 0) != 4) return 12;
  const auto again = map_file_again(region, PROT_READ);
  return !again ? 2 : *again && memcmp(table, "now!", 4) == 0 ? 1 : 0;
}

TEST(MappedFiles, TablesOfTheMachinesServicesMayHaveChangedAndOtherSharedFilesMayNot) {
  const int table = with_an_empty_var_lib([] {
    mkdir("/var/lib/sss", 0755);
    mkdir("/var/lib/sss/mc", 0755);
    return map_a_changed_table("/var/lib/sss/mc/passwd");
  });
  if (table == kNoNamespace) GTEST_SKIP() << "no mount namespace can be had";
  EXPECT_EQ(table, 1);
  EXPECT_EQ(with_an_empty_var_lib([] { return map_a_changed_table("/var/lib/other"); }), 2);
}

TEST(MappedFiles, NamesThatNetworkFileSystemsGiveToDeletedFilesAreKnown) {
  EXPECT_TRUE(files::has_name_of_deleted("/home/me/.nfs00000000001a2b3c00000042"));
  EXPECT_TRUE(files::has_name_of_deleted("/mnt/.fuse_hidden0000000100000002"));
  EXPECT_FALSE(files::has_name_of_deleted("/home/.nfs/data"));
  EXPECT_FALSE(files::has_name_of_deleted("/home/me/.nfsrc"));
  EXPECT_FALSE(files::has_name_of_deleted("/home/me/.nfs_lockfile_of_my_own_1234"));
  EXPECT_FALSE(files::has_name_of_deleted("/home/me/results.nfs"));
}

TEST(MappedFiles, OnlyLargeSharedFilesOnADiskKeepTheirContentsToThemselves) {
  MappedFile file;
  file.path = "/proc/self/exe";  // a file on a disk, or wherever the test was built
  file.shared = true;
  file.identity.inode = 1;
  constexpr int64_t kBegan = 12'000'000'000;  // when the program began
  file.identity.modified = 10'000'000'000;
  struct statfs where {};
  ASSERT_EQ(statfs(file.path.c_str(), &where), 0);
  const bool on_a_disk = where.f_type != TMPFS_MAGIC && where.f_type != RAMFS_MAGIC;
  EXPECT_EQ(may_be_left_in_file(file, 16 << 20, kBegan), on_a_disk);
  EXPECT_FALSE(may_be_left_in_file(file, (16 << 20) - kPage, kBegan));
  EXPECT_FALSE(may_be_left_in_file(file, 16 << 20, 0));
  file.identity.modified = kBegan + 1;  // it may have been written again
  EXPECT_FALSE(may_be_left_in_file(file, 16 << 20, kBegan));
  file.identity.modified = 11'900'000'001;
  EXPECT_EQ(may_be_left_in_file(file, 16 << 20, kBegan), on_a_disk);
  file.identity.modified = 11'000'000'000;  // from a file system with whole seconds: really up to 12.9 s
  EXPECT_FALSE(may_be_left_in_file(file, 16 << 20, kBegan));
  file.identity.modified = 10'000'000'000;
  file.shared = false;
  EXPECT_FALSE(may_be_left_in_file(file, 16 << 20, kBegan));
  file.shared = true, file.path = "/dev/shm";
  if (statfs("/dev/shm", &where) == 0 && where.f_type == TMPFS_MAGIC) {
    EXPECT_FALSE(may_be_left_in_file(file, 16 << 20, kBegan));
  }
  file.path = "/proc/self/exe", file.identity.inode = 0;
  EXPECT_FALSE(may_be_left_in_file(file, 16 << 20, kBegan));
}

// The number of the file's pages that are not on disk yet; -1: this kernel cannot tell.
int64_t pages_to_be_written(int fd) {
  constexpr long kCacheStat = 451;  // cachestat(2), Linux 6.5; length 0: up to the end
  const uint64_t whole[2] = {0, 0};
  struct {
    uint64_t cached, dirty, being_written, evicted, recently_evicted;
  } pages{};
  if (syscall(kCacheStat, fd, whole, &pages, 0) != 0) return -1;
  return static_cast<int64_t>(pages.dirty + pages.being_written);
}

TEST(MappedFiles, ADataSetThatStaysInItsFileIsDurable) {
  char name[] = "/var/tmp/cropdl-data.XXXXXX";
  const Descriptor out(mkstemp(name));
  ASSERT_TRUE(out);
  const std::string text(64 * kPage, 'x');
  ASSERT_EQ(pwrite(out.fd(), text.data(), text.size(), 0), static_cast<ssize_t>(text.size()));
  MappedFile file;
  file.path = name;
  file.shared = true;
  file.identity = *files::identify_file(out.fd(), "");
  struct statfs where {};
  ASSERT_EQ(fstatfs(out.fd(), &where), 0);
  const bool told = where.f_type != TMPFS_MAGIC && pages_to_be_written(out.fd()) > 0;
  EXPECT_TRUE(make_durable(file));
  if (told) {
    EXPECT_EQ(pages_to_be_written(out.fd()), 0);
  }
  EXPECT_TRUE(make_durable(file));
  file.identity.modified += 1;  // the name leads to another file, or to a later state of it
  EXPECT_FALSE(make_durable(file));
  unlink(name);
  EXPECT_FALSE(make_durable(file));
}

TEST(MappedFiles, ADataSetThatBecameAnotherFileAfterItWasCheckedIsNotMapped) {
  char name[] = "/tmp/cropdl-data.XXXXXX";
  const Descriptor out(mkstemp(name));
  ASSERT_TRUE(out);
  const std::string other = std::string(name) + ".other";
  ASSERT_EQ(pwrite(out.fd(), "then", 4, 0), 4);
  MappedFile file;
  file.path = name;
  file.shared = file.left_in_file = true;
  file.identity = *files::identify_file(out.fd(), "");
  void* const at = mmap(nullptr, kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  const auto begin = reinterpret_cast<uint64_t>(at);
  EXPECT_TRUE(check_left_in_file(file, kPage, false));
  RegionState region;
  region.begin = begin;
  region.end = begin + kPage;
  region.file = file;
  {
    const Descriptor made(open(other.c_str(), O_RDWR | O_CREAT | O_EXCL, 0600));
    ASSERT_EQ(pwrite(made.fd(), "now!!", 5, 0), 5);
  }
  ASSERT_EQ(rename(other.c_str(), name), 0);
  const Status refused = map_left_in_file(region, PROT_READ, false);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("is not as it was when the checkpoint was taken (5 bytes, then 4"),
            std::string::npos)
      << refused.error().message;
  EXPECT_FALSE(mapping_at(begin).shared);  // nothing was mapped
  const Status kept = map_left_in_file(region, PROT_READ, true);
  ASSERT_TRUE(kept) << kept.error().message;
  EXPECT_EQ(memcmp(at, "now!!", 5), 0);
  unlink(name);
  EXPECT_FALSE(map_left_in_file(region, PROT_READ, true));
  munmap(at, kPage);
}

}  // namespace
}  // namespace cropdl::host_memory
