// links: cropdl_restart
// What an image contains, and that it is restored.
#include "tests/unit/store_fixture.h"

#include <atomic>
#include <cstring>
#include <filesystem>
#include <map>
#include <thread>

#include "base/checksum.h"
#include "restart/image_layout.h"
#include "tests/unit/soon.h"

namespace cropdl::restart {
namespace {

using ImageContent = StoreFixture;

ImageTotals write_regions(const std::string& path, const std::vector<Region>& regions, uint32_t seam = 1,
                          const std::string& metadata = "{\"rank\":0}", PageSource* source = nullptr,
                          PageSource* original = nullptr, bool by_thread = false, bool compress = false) {
  LivePages live;
  Result<ImageWriter> writer = ImageWriter::create(path, seam, 0, by_thread, compress);
  EXPECT_TRUE(writer) << writer.error().message;
  for (const Region& region : regions) {
    Status added = cut_region(region, source != nullptr ? *source : live, original, *writer);
    EXPECT_TRUE(added) << added.error().message;
  }
  Result<ImageTotals> totals = writer->finish(metadata);
  EXPECT_TRUE(totals) << totals.error().message;
  return *totals;
}

ImageReader open_image(const std::string& path) {
  Result<ImageReader> reader = ImageReader::open(path);
  EXPECT_TRUE(reader) << reader.error().message;
  return std::move(*reader);
}

TEST_F(ImageContent, MemoryComesBackBitForBitWithZeroPagesAndChunkEdges) {
  constexpr uint64_t kBytes = 9 << 20;
  Memory memory(kTestAddress, kBytes);
  fill(memory.data(), kBytes, 1);
  for (uint64_t page = 0; page < kBytes / kImagePage; ++page)  // single pages, pairs, and a long hole
    if (page % 7 == 0 || page % 13 == 1 || (page > 300 && page < 700) || page == kBytes / kImagePage - 1)
      std::memset(memory.data() + page * kImagePage, 0, kImagePage);
  memory.data()[500 * kImagePage + 4095] = 1;  // a single nonzero byte makes a page stored
  std::string before(memory.data(), kBytes);

  write_regions(path("a.img"),
                {{memory.begin(), memory.end(), PROT_READ, "numbers", {{memory.begin(), memory.end()}}}});
  ImageReader reader = open_image(path("a.img"));
  memory.renew();
  Status loaded = reader.load_region(0);
  ASSERT_TRUE(loaded) << loaded.error().message;
  EXPECT_EQ(std::memcmp(memory.data(), before.data(), kBytes), 0);
  Status verified = reader.verify();
  EXPECT_TRUE(verified) << verified.error().message;
}

TEST_F(ImageContent, CompressedMemoryComesBackBitForBitAndTakesLess) {
  constexpr uint64_t kBytes = 24 << 20, kChunks = kBytes / kImageChunk;
  Memory memory(kTestAddress, kBytes), little(kTestAddress + (1 << 30), kImagePage);
  fill(memory.data(), kBytes, 1);  // every third chunk stays as it is: random
  for (uint64_t page = 0; page < kBytes / kImagePage; ++page) {
    char* at = memory.data() + page * kImagePage;
    const uint64_t chunk = page * kImagePage / kImageChunk;
    if (chunk % 3 == 1) std::memset(at, 0, kImagePage - 300);
    if (chunk % 3 == 2) std::memset(at, static_cast<int>(page % 4), kImagePage);  // some zero: many pieces
  }
  little.data()[0] = 1;
  const std::string before(memory.data(), kBytes);
  const std::vector<Region> regions = {
      {memory.begin(), memory.end(), PROT_READ, "numbers", {{memory.begin(), memory.end()}}},
      {little.begin(), little.end(), PROT_READ, "", {{little.begin(), little.end()}}}};
  for (const bool by_thread : {false, true}) {
    const std::string name = path(by_thread ? "b.img" : "a.img");
    const ImageTotals totals = write_regions(name, regions, 1, "{}", nullptr, nullptr, by_thread, true);
    ImageReader reader = open_image(name);
    EXPECT_EQ(totals.memory, reader.totals().memory);
    EXPECT_EQ(totals.memory, bytes_of(reader.regions()[0].present) + kImagePage);
    EXPECT_GT(reader.regions()[0].in_file, kChunks / 3 * kImageChunk);  // the random ones
    EXPECT_LT(reader.regions()[0].in_file, kChunks / 3 * kImageChunk * 5 / 4);
    EXPECT_LT(reader.regions()[1].in_file, 100u);
    EXPECT_EQ(std::filesystem::file_size(name), totals.bytes);
    memory.renew(), little.renew();
    for (size_t i = 0; i < 2; ++i) {
      const Status loaded = reader.load_region(i);
      ASSERT_TRUE(loaded) << loaded.error().message;
    }
    EXPECT_EQ(std::memcmp(memory.data(), before.data(), kBytes), 0);
    EXPECT_EQ(little.data()[0], 1);
    EXPECT_TRUE(reader.verify());
  }
  EXPECT_EQ(read(path("a.img")), read(path("b.img")));
}

TEST_F(ImageContent, FragileMemoryIsCopiedAndComesBackTheSame) {
  constexpr uint64_t kBytes = 3 << 20;
  Memory memory(kTestAddress, kBytes);
  fill(memory.data(), kBytes, 4);
  for (uint64_t page = 0; page < kBytes / kImagePage; page += 5)
    std::memset(memory.data() + page * kImagePage, 0, kImagePage);
  std::string before(memory.data(), kBytes);
  Region region{memory.begin(), memory.end(), PROT_READ, "file", {{memory.begin(), memory.end()}}};
  const ImageTotals plain = write_regions(path("a.img"), {region});
  FragilePages copies("file");
  const ImageTotals copied = write_regions(path("b.img"), {region}, 1, "{\"rank\":0}", &copies);
  EXPECT_EQ(plain.checksum, copied.checksum);  // the image files are equal
  ImageReader reader = open_image(path("b.img"));
  memory.renew();
  Status loaded = reader.load_region(0);
  ASSERT_TRUE(loaded) << loaded.error().message;
  EXPECT_EQ(std::memcmp(memory.data(), before.data(), kBytes), 0);
}

TEST_F(ImageContent, FragileMemoryThatCannotBeReadFailsInWords) {
  Memory memory(kTestAddress, 4 * kImagePage);
  fill(memory.data(), 4 * kImagePage, 5);
  mprotect(memory.data() + 2 * kImagePage, kImagePage, PROT_NONE);
  Result<ImageWriter> writer = ImageWriter::create(path("a.img"), 1);
  ASSERT_TRUE(writer);
  Region region{memory.begin(), memory.end(), PROT_READ, "libfoo.so", {{memory.begin(), memory.end()}}};
  FragilePages copies("libfoo.so");
  Status added = cut_region(region, copies, nullptr, *writer);
  ASSERT_FALSE(added);
  EXPECT_NE(added.error().message.find("libfoo.so cannot be read any more"), std::string::npos)
      << added.error().message;
}

TEST_F(ImageContent, RegionsMetadataAndTotalsComeBack) {
  Memory low(kTestAddress, 3 * kImagePage), high(kTestAddress + (1 << 30), 2 * kImagePage);
  fill(low.data() + kImagePage, kImagePage, 2);
  fill(high.data(), 2 * kImagePage, 3);
  ImageTotals totals = write_regions(
      path("a.img"),
      {{high.begin(), high.end(), PROT_READ | PROT_EXEC, "/usr/lib/libc.so", {{high.begin(), high.end()}}},
       {low.begin(), low.end(), PROT_READ | PROT_WRITE, "", {{low.begin(), low.end()}}},
       {kTestAddress + (2u << 30), kTestAddress + (2u << 30) + kImagePage, PROT_NONE, "guard", {}}},
      seam::kSeamVersion, "{\"state\": [1, 2]}");

  ImageReader reader = open_image(path("a.img"));
  ASSERT_EQ(reader.regions().size(), 3u);
  const Region& code = reader.regions()[0];
  EXPECT_EQ(code.begin, high.begin());
  EXPECT_EQ(code.end, high.end());
  EXPECT_EQ(code.prot, static_cast<uint32_t>(PROT_READ | PROT_EXEC));
  EXPECT_EQ(code.name, "/usr/lib/libc.so");
  EXPECT_EQ(reader.regions()[1].present,
            (std::vector<Extent>{{low.begin() + kImagePage, low.begin() + 2 * kImagePage}}));
  EXPECT_EQ(reader.regions()[2].name, "guard");
  EXPECT_TRUE(reader.regions()[2].present.empty());
  EXPECT_EQ(reader.metadata(), "{\"state\": [1, 2]}");
  EXPECT_EQ(reader.seam_version(), seam::kSeamVersion);
  EXPECT_EQ(reader.totals().bytes, totals.bytes);
  EXPECT_EQ(reader.totals().memory, 3 * kImagePage);
  EXPECT_EQ(reader.totals().memory, totals.memory);
  EXPECT_EQ(reader.totals().checksum, totals.checksum);
  EXPECT_EQ(std::filesystem::file_size(path("a.img")), totals.bytes);
}

TEST_F(ImageContent, ZeroPagesAndAbsentPagesAreNeitherReadNorStored) {
  constexpr uint64_t kReserved = 60ull << 30;  // like the window's heap: reserved and mostly untouched
  Memory memory(kTestAddress, kReserved);
  uint64_t middle = memory.begin() + (30ull << 30);
  fill(reinterpret_cast<char*>(middle), 4 * kImagePage, 4);
  ASSERT_EQ(::mprotect(memory.data(), 1 << 20, PROT_NONE), 0);  // reading this would fault
  ImageTotals totals = write_regions(
      path("a.img"),
      {{memory.begin(), memory.end(), PROT_READ, "heap", {{middle, middle + 1024 * kImagePage}}}});
  EXPECT_EQ(totals.memory, 4 * kImagePage);
  EXPECT_LT(totals.bytes, 4 * kImagePage + sizeof(ImageHeader) + 1024);
}

TEST_F(ImageContent, LoadingTouchesNoPageThatIsNotStored) {
  Memory memory(kTestAddress, 8 * kImagePage);
  fill(memory.data() + 2 * kImagePage, kImagePage, 5);
  write_regions(path("a.img"),
                {{memory.begin(), memory.end(), PROT_READ, "x", {{memory.begin(), memory.end()}}}});
  memory.renew();
  ASSERT_TRUE(open_image(path("a.img")).load_region(0));
  unsigned char present[8];
  ASSERT_EQ(::mincore(memory.data(), 8 * kImagePage, present), 0);
  for (int page = 0; page < 8; ++page) EXPECT_EQ(present[page] & 1, page == 2) << "page " << page;
}

TEST_F(ImageContent, AnEmptyImageIsValid) {
  write_regions(path("a.img"), {}, 1, "");
  ImageReader reader = open_image(path("a.img"));
  EXPECT_TRUE(reader.regions().empty());
  EXPECT_EQ(reader.metadata(), "");
  EXPECT_TRUE(reader.verify());
}

TEST_F(ImageContent, ItsFileIsTheOwnersAloneAndIsNeverOverwritten) {
  write_regions(path("a.img"), {});
  struct stat info;
  ASSERT_EQ(::stat(path("a.img").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0600u);
  std::string before = read(path("a.img"));
  Result<ImageWriter> again = ImageWriter::create(path("a.img"), 1);
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().message, "rank image " + path("a.img") + ": cannot be created: File exists");
  EXPECT_EQ(read(path("a.img")), before);
}

TEST_F(ImageContent, AnUnfinishedImageIsNotRemovedWhileTheProgramIsStopped) {
  { ASSERT_TRUE(ImageWriter::create(path("a.img"), 1)); }
  EXPECT_TRUE(std::filesystem::exists(path("a.img")));  // removed when its version is discarded
}

TEST_F(ImageContent, MalformedAndOverlappingRegionsAreRefused) {
  Memory memory(kTestAddress, 4 * kImagePage);
  uint64_t at = memory.begin();
  Result<ImageWriter> writer = ImageWriter::create(path("a.img"), 1);
  ASSERT_TRUE(writer);
  EXPECT_FALSE(add_region(*writer, {at, at, 0, "empty", {}}));
  EXPECT_FALSE(add_region(*writer, {at + 1, at + kImagePage, 0, "unaligned", {}}));
  EXPECT_FALSE(add_region(*writer, {at, at + kImagePage, 0, "outside", {{at, at + 2 * kImagePage}}}));
  EXPECT_FALSE(add_region(
      *writer,
      {at, memory.end(), 0, "descending", {{at + kImagePage, at + 2 * kImagePage}, {at, at + kImagePage}}}));
  ASSERT_TRUE(add_region(*writer, {at, at + 2 * kImagePage, 0, "one", {}}));
  ASSERT_TRUE(add_region(*writer, {at + kImagePage, at + 3 * kImagePage, 0, "two", {}}));
  Result<ImageTotals> totals = writer->finish("{}");
  ASSERT_FALSE(totals);
  EXPECT_EQ(totals.error().message, "rank image " + path("a.img") +
                                        ": regions one and two overlap: a fault of CropDL, please report it");
}

TEST_F(ImageContent, AnOlderSeamIsReadAndANewerOneRefused) {
  write_regions(path("older.img"), {}, seam::kSeamVersion - 1);
  EXPECT_TRUE(ImageReader::open(path("older.img")));
  write_regions(path("same.img"), {}, seam::kSeamVersion);
  EXPECT_TRUE(ImageReader::open(path("same.img")));
  write_regions(path("newer.img"), {}, seam::kSeamVersion + 1);
  Result<ImageReader> newer = ImageReader::open(path("newer.img"));
  ASSERT_FALSE(newer);
  EXPECT_EQ(
      newer.error().message,
      formatted("rank image {}: was written by a newer CropDL (seam version {}, this one has {}): restart "
                "it with that CropDL",
                path("newer.img"), seam::kSeamVersion + 1, seam::kSeamVersion));
}

TEST_F(ImageContent, ANewerFormatIsRefused) {
  write_regions(path("a.img"), {});
  std::string file = read(path("a.img"));
  ImageHeader header;
  std::memcpy(&header, file.data(), sizeof header);
  header.format = kCompressedFormat + 1;
  header.checksum = checksum(&header, offsetof(ImageHeader, checksum));
  std::memcpy(file.data(), &header, sizeof header);
  write(path("a.img"), file);
  Result<ImageReader> reader = ImageReader::open(path("a.img"));
  ASSERT_FALSE(reader);
  EXPECT_NE(reader.error().message.find("newer CropDL (image format 4, this one reads 2 and 3)"),
            std::string::npos)
      << reader.error().message;
}

TEST_F(ImageContent, AnOlderFormatIsRefusedByName) {
  write_regions(path("a.img"), {});
  std::string file = read(path("a.img"));
  ImageHeader header;
  std::memcpy(&header, file.data(), sizeof header);
  header.format = 1;
  header.checksum = checksum(&header, offsetof(ImageHeader, checksum));
  std::memcpy(file.data(), &header, sizeof header);
  write(path("a.img"), file);
  Result<ImageReader> reader = ImageReader::open(path("a.img"));
  ASSERT_FALSE(reader);
  EXPECT_EQ(reader.error().message, "rank image " + path("a.img") +
                                        ": was written by an older CropDL (image format 1, this one reads 2 "
                                        "and 3): restart it with that CropDL");
}

// --- Chunks
// ------------------------------------------------------------------------------------------------------

// What the cutter passes on, by block address.
class Collected final : public ChunkSink {
 public:
  Status begin_region(const Region&) override { return {}; }
  Status put(const Chunk& chunk) override {
    looked_at += chunk.looked_at;
    if (!chunk.stored.empty())
      stored[chunk.stored.front().begin / kImageChunk] = {chunk.stored, checksum(chunk.bytes)};
    if (!chunk.referenced.empty())
      referenced[chunk.referenced.front().begin / kImageChunk] = {chunk.referenced, checksum(chunk.original)};
    return {};
  }
  Result<ImageTotals> finish(const std::string&) override { return ImageTotals(); }

  using Blocks = std::map<uint64_t, std::pair<std::vector<Extent>, uint64_t>>;
  Blocks stored, referenced;
  uint64_t looked_at = 0;
};

TEST_F(ImageContent, APageThatTurnsToZeroChangesItsOwnChunkOnly) {
  constexpr uint64_t kBytes = 16 * kImageChunk;
  Memory memory(kTestAddress + 3 * kImagePage,
                kBytes);  // chunk boundaries depend on addresses, not on the start of the region
  fill(memory.data(), kBytes, 7);
  const Region region{memory.begin(), memory.end(), PROT_READ, "x", {{memory.begin(), memory.end()}}};
  LivePages live;
  Collected before, after;
  ASSERT_TRUE(cut_region(region, live, nullptr, before));
  EXPECT_EQ(before.stored.size(), 17u);
  EXPECT_EQ(before.looked_at, kBytes);
  for (const auto& [block, chunk] : before.stored)
    for (const Extent& extent : chunk.first) {
      EXPECT_EQ(extent.begin / kImageChunk, block);
      EXPECT_EQ((extent.end - 1) / kImageChunk, block);
    }
  const uint64_t page = memory.begin() + 5 * kImageChunk + 7 * kImagePage;
  std::memset(reinterpret_cast<void*>(page), 0, kImagePage);
  ASSERT_TRUE(cut_region(region, live, nullptr, after));
  ASSERT_EQ(after.stored.size(), before.stored.size());
  for (const auto& [block, chunk] : before.stored)
    EXPECT_EQ(after.stored.at(block) == chunk, block != page / kImageChunk) << block;
}

// Reads its input twice, as a writer does, while a byte changes.
class LooksTwice final : public ChunkSink {
 public:
  explicit LooksTwice(char* changes) : changes_(changes) {}
  Status begin_region(const Region&) override { return {}; }
  Status put(const Chunk& chunk) override {
    const uint64_t first = checksum(chunk.bytes);
    *changes_ ^= 1;
    equal = equal && checksum(chunk.bytes) == first;
    return {};
  }
  Result<ImageTotals> finish(const std::string&) override { return ImageTotals{}; }
  bool equal = true;

 private:
  char* changes_;
};

TEST_F(ImageContent, ChangingMemoryGivesEveryReaderOfAChunkTheSameBytes) {
  constexpr uint64_t kBytes = 3 * kImageChunk;
  Memory memory(kTestAddress, kBytes);
  fill(memory.data(), kBytes, 3);
  const Region region{memory.begin(), memory.end(), PROT_READ, "x", {{memory.begin(), memory.end()}}};
  LivePages live;
  LooksTwice twice(memory.data() + kImageChunk + 5000);
  ASSERT_TRUE(cut_region(region, live, nullptr, twice));
  EXPECT_TRUE(twice.equal);
}

TEST_F(ImageContent, MemoryThatIsWrittenToMeanwhileMakesNoDamagedImage) {
  constexpr uint64_t kBytes = 64 * kImageChunk;
  Memory memory(kTestAddress, kBytes);
  fill(memory.data(), kBytes, 6);
  const auto number = [&](uint64_t page) -> std::atomic<uint64_t>& {
    return *reinterpret_cast<std::atomic<uint64_t>*>(memory.data() + page * kImagePage);
  };
  for (uint64_t page = 1; page < kBytes / kImagePage; page += 8)  // these pages are zero or nearly so
    std::memset(memory.data() + page * kImagePage, 0, kImagePage);
  std::atomic<bool> over = false;
  std::thread writes([&] {  // as a device would, or a system call that is still running
    for (uint64_t round = 0; !over; ++round)
      for (uint64_t page = 0; page < kBytes / kImagePage; ++page)
        number(page).store(page % 8 == 1 ? round % 2 : round, std::memory_order_relaxed);
  });
  for (int i = 0; i < 10; ++i) {
    const std::string image = path("a.img");
    ::unlink(image.c_str());
    write_regions(image, {{memory.begin(), memory.end(), PROT_READ, "x", {{memory.begin(), memory.end()}}}});
    const Status whole = open_image(image).verify();
    EXPECT_TRUE(whole) << whole.error().message;
  }
  over = true;
  writes.join();
}

class ImageReference : public StoreFixture {
 protected:
  // A file of 200.5 pages, mapped from its third page on; the program has changed some pages and zeroed one.
  ImageReference() : memory_(kTestAddress + 5 * kImagePage, kPages * kImagePage), file_(kFileBytes, 'x') {
    fill(file_.data(), file_.size(), 9);
    std::memset(file_.data() + 50 * kImagePage, 0, kImagePage);
    write(path("lib.so"), file_);
    std::memcpy(memory_.data(), file_.data() + kOffset, kFileBytes - kOffset);
    memory_.data()[kImagePage * 3 + 17] ^= 1;
    memory_.data()[kImagePage * 150] ^= 1;
    std::memset(memory_.data() + 7 * kImagePage, 0, kImagePage);
    before_.assign(memory_.data(), kPages * kImagePage);
    FilePages original(path("lib.so"), memory_.begin(), kOffset);
    write_regions(path("a.img"),
                  {{memory_.begin(), memory_.end(), PROT_READ, "lib.so", {{memory_.begin(), memory_.end()}}}},
                  1, "{}", nullptr, &original);
  }
  std::string load() {
    ImageReader reader = open_image(path("a.img"));
    memory_.renew();
    Status loaded = reader.load_region(0);
    if (!loaded) return loaded.error().message;
    FilePages original(path("lib.so"), memory_.begin(), kOffset);
    const Status same = reader.verify_referenced(0, original);
    loaded = reader.load_referenced(0, original);
    EXPECT_EQ(static_cast<bool>(same), static_cast<bool>(loaded));
    return loaded ? "" : loaded.error().message;
  }
  static constexpr uint64_t kOffset = 2 * kImagePage, kFileBytes = 200 * kImagePage + 2048,
                            kPages = (kFileBytes - kOffset + kImagePage - 1) / kImagePage;
  Memory memory_;
  std::string file_, before_;
};

TEST_F(ImageReference, PagesThatAreAsInTheirFileAreNotStoredAndComeBack) {
  ImageReader reader = open_image(path("a.img"));
  EXPECT_EQ(reader.totals().memory, 2 * kImagePage);  // the changed ones, without the zeroed one
  uint64_t referenced = 0;
  for (const Extent& extent : reader.regions()[0].referenced) referenced += extent.end - extent.begin;
  EXPECT_EQ(referenced, (kPages - 4) * kImagePage);  // and without the page that is zero in both
  EXPECT_TRUE(reader.verify());
  EXPECT_EQ(load(), "");
  EXPECT_EQ(std::memcmp(memory_.data(), before_.data(), before_.size()), 0);
}

TEST_F(ImageReference, AChangedFileIsRefusedByName) {
  for (const size_t at : {kOffset, size_t{100} * kImagePage + 5, file_.size() - 1}) {
    std::string changed = file_;
    changed[at] = static_cast<char>(changed[at] ^ 1);
    write(path("lib.so"), changed);
    EXPECT_EQ(load(),
              "lib.so was changed after the checkpoint, and the image has its contents by reference; put it "
              "back and try again");
  }
  std::string elsewhere = file_;  // the path of the program's file does not matter
  elsewhere[kOffset + 3 * kImagePage] ^= 1;
  elsewhere[100] ^= 1;
  write(path("lib.so"), elsewhere);
  EXPECT_EQ(load(), "");
  EXPECT_EQ(std::memcmp(memory_.data(), before_.data(), before_.size()), 0);
}

TEST_F(ImageReference, AMissingShortenedOrReplacedFileIsRefusedByName) {
  const std::string by = "lib.so cannot be read, and the image has its contents by reference: ";
  ASSERT_EQ(::truncate(path("lib.so").c_str(), 100 * kImagePage), 0);
  EXPECT_EQ(load(), by + "it is shorter now; put it back and try again");
  ::unlink(path("lib.so").c_str());
  EXPECT_EQ(load(), by + "No such file or directory; put it back and try again");
  ASSERT_EQ(::mkfifo(path("lib.so").c_str(), 0600), 0);
  EXPECT_EQ(load(), by + "it is no regular file; put it back and try again");
}

TEST_F(ImageContent, MemoryOfAnUnknownKindIsRefused) {
  Memory memory(kTestAddress, kImagePage);
  Region device{memory.begin(), memory.end(), PROT_READ, "gpu", {{memory.begin(), memory.end()}}};
  device.kind = static_cast<RegionKind>(7);
  write_regions(path("a.img"), {device});
  Result<ImageReader> reader = ImageReader::open(path("a.img"));
  ASSERT_FALSE(reader);
  EXPECT_NE(
      reader.error().message.find("newer CropDL (it has memory of kind 7, which this one does not know)"),
      std::string::npos)
      << reader.error().message;
}

TEST_F(ImageContent, AFullDiskIsReportedWithTheMissingBytes) {
  constexpr uint64_t kBytes = 16 << 20;
  Memory memory(kTestAddress, kBytes);
  fill(memory.data(), kBytes, 6);
  Status added;
  {
    FullDisk full(4 << 20);
    Result<ImageWriter> writer = ImageWriter::create(path("a.img"), 1, kBytes);
    ASSERT_TRUE(writer);
    added = add_region(*writer, {memory.begin(), memory.end(), 3, "big", {{memory.begin(), memory.end()}}});
  }
  ASSERT_FALSE(added);
  EXPECT_EQ(added.error().message,
            "rank image " + path("a.img") + ": File too large (needed about 13 more MB)");
}

TEST_F(ImageContent, AThreadWritesTheSameFile) {
  constexpr uint64_t kBytes = 40 << 20;
  Memory memory(kTestAddress, kBytes);
  fill(memory.data(), kBytes, 8);
  for (uint64_t page = 0; page < kBytes / kImagePage; page += 5)  // so chunks are of several pieces
    std::memset(memory.data() + page * kImagePage, 0, kImagePage);
  const Region region{memory.begin(), memory.end(), PROT_READ, "big", {{memory.begin(), memory.end()}}};
  for (const bool by_thread : {false, true}) {
    Result<ImageWriter> writer = ImageWriter::create(path(by_thread ? "b.img" : "a.img"), 1, 0, by_thread);
    ASSERT_TRUE(writer);
    const auto threads = [] {
      return std::distance(std::filesystem::directory_iterator("/proc/self/task"), {});
    };
    const auto before = threads();
    ASSERT_TRUE(add_region(*writer, region));
    EXPECT_EQ(threads() - before, by_thread ? 1 : 0);
    ASSERT_TRUE(writer->finish("{}"));
    EXPECT_TRUE(soon([&] { return threads() == before; }));
  }
  EXPECT_TRUE(read(path("a.img")) == read(path("b.img")));
}

TEST_F(ImageContent, AThreadsFullDiskIsReported) {
  constexpr uint64_t kBytes = 40 << 20;
  Memory memory(kTestAddress, kBytes);
  fill(memory.data(), kBytes, 9);
  const Region region{memory.begin(), memory.end(), PROT_READ, "big", {{memory.begin(), memory.end()}}};
  for (const rlim_t room :
       {rlim_t{20} << 20, rlim_t{kBytes} - (1 << 20)}) {  // noticed by put(), and at the end
    Status done;
    {
      FullDisk full(room);
      Result<ImageWriter> writer = ImageWriter::create(path("a.img"), 1, kBytes, true);
      ASSERT_TRUE(writer);
      done = add_region(*writer, region);
      if (done)
        if (auto totals = writer->finish("{}"); !totals) done = totals.error();
    }
    ASSERT_FALSE(done);
    EXPECT_NE(done.error().message.find("rank image " + path("a.img") + ": File too large"),
              std::string::npos)
        << done.error().message;
    ::unlink(path("a.img").c_str());
  }
}

TEST_F(ImageContent, DescriptorsStayAboveTheUpperHalfs) {
  Result<ImageWriter> writer = ImageWriter::create(path("a.img"), 1);
  ASSERT_TRUE(writer);
  struct stat image, other;
  ASSERT_EQ(::stat(path("a.img").c_str(), &image), 0);
  for (int fd = 0; fd < 900; ++fd)
    EXPECT_FALSE(::fstat(fd, &other) == 0 && other.st_ino == image.st_ino && other.st_dev == image.st_dev)
        << fd;
}

TEST(Checksum, IsThatOfTheConcatenationAndKnownValues) {
  std::string text(10000, 'x');
  for (size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i * 31);
  iovec pieces[] = {{text.data(), 1}, {text.data() + 1, 5000}, {text.data() + 5001, 4999}};
  EXPECT_EQ(checksum(std::span<const iovec>(pieces)), checksum(text));
  EXPECT_EQ(checksum(""), 0x2d06800538d394c2u);  // XXH3-64 of nothing, as the xxHash specification says
}

}  // namespace
}  // namespace cropdl::restart
