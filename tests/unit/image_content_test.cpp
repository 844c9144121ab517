// links: cropdl_restart
// What an image holds, and that it comes back.
#include "tests/unit/store_fixture.h"

#include <cstring>

#include "base/checksum.h"
#include "restart/image_layout.h"

namespace cropdl::restart {
namespace {

using ImageContent = StoreFixture;

ImageTotals write_regions(const std::string& path, const std::vector<Region>& regions, uint32_t seam = 1,
                          const std::string& metadata = "{\"rank\":0}") {
  Result<ImageWriter> writer = ImageWriter::create(path, seam);
  EXPECT_TRUE(writer) << writer.error().message;
  for (const Region& region : regions) {
    Status added = writer->add_region(region);
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
  for (uint64_t page = 0; page < kBytes / kImagePage; ++page)  // singles, pairs, and a long hole
    if (page % 7 == 0 || page % 13 == 1 || (page > 300 && page < 700) || page == kBytes / kImagePage - 1)
      std::memset(memory.data() + page * kImagePage, 0, kImagePage);
  memory.data()[500 * kImagePage + 4095] = 1;  // one last byte makes a page worth storing
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

TEST_F(ImageContent, FragileMemoryIsCopiedAndComesBackTheSame) {
  constexpr uint64_t kBytes = 3 << 20;
  Memory memory(kTestAddress, kBytes);
  fill(memory.data(), kBytes, 4);
  for (uint64_t page = 0; page < kBytes / kImagePage; page += 5)
    std::memset(memory.data() + page * kImagePage, 0, kImagePage);
  std::string before(memory.data(), kBytes);
  Region region{memory.begin(), memory.end(), PROT_READ, "file", {{memory.begin(), memory.end()}}};
  const ImageTotals plain = write_regions(path("a.img"), {region});
  region.fragile = true;
  const ImageTotals copied = write_regions(path("b.img"), {region});
  EXPECT_EQ(plain.checksum, copied.checksum);  // the files are the same
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
  region.fragile = true;
  Status added = writer->add_region(region);
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
  constexpr uint64_t kReserved = 60ull << 30;  // as the window's heap is: reserved, hardly touched
  Memory memory(kTestAddress, kReserved);
  uint64_t middle = memory.begin() + (30ull << 30);
  fill(reinterpret_cast<char*>(middle), 4 * kImagePage, 4);
  ASSERT_EQ(::mprotect(memory.data(), 1 << 20, PROT_NONE), 0);  // reading it would be a fault
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

TEST_F(ImageContent, AnUnfinishedImageLeavesNoFile) {
  { ASSERT_TRUE(ImageWriter::create(path("a.img"), 1)); }
  EXPECT_FALSE(std::filesystem::exists(path("a.img")));
}

TEST_F(ImageContent, MalformedAndOverlappingRegionsAreRefused) {
  Memory memory(kTestAddress, 4 * kImagePage);
  uint64_t at = memory.begin();
  Result<ImageWriter> writer = ImageWriter::create(path("a.img"), 1);
  ASSERT_TRUE(writer);
  EXPECT_FALSE(writer->add_region({at, at, 0, "empty", {}}));
  EXPECT_FALSE(writer->add_region({at + 1, at + kImagePage, 0, "unaligned", {}}));
  EXPECT_FALSE(writer->add_region({at, at + kImagePage, 0, "outside", {{at, at + 2 * kImagePage}}}));
  EXPECT_FALSE(writer->add_region(
      {at, memory.end(), 0, "descending", {{at + kImagePage, at + 2 * kImagePage}, {at, at + kImagePage}}}));
  ASSERT_TRUE(writer->add_region({at, at + 2 * kImagePage, 0, "one", {}}));
  ASSERT_TRUE(writer->add_region({at + kImagePage, at + 3 * kImagePage, 0, "two", {}}));
  Result<ImageTotals> totals = writer->finish("{}");
  ASSERT_FALSE(totals);
  EXPECT_EQ(totals.error().message, "rank image " + path("a.img") + ": regions one and two overlap");
}

TEST_F(ImageContent, AnOlderSeamIsReadAndANewerOneRefused) {
  write_regions(path("a.img"), {}, 3);
  EXPECT_TRUE(ImageReader::open(path("a.img"), 3));
  EXPECT_TRUE(ImageReader::open(path("a.img"), 4));
  Result<ImageReader> older = ImageReader::open(path("a.img"), 2);
  ASSERT_FALSE(older);
  EXPECT_EQ(older.error().message,
            "rank image " + path("a.img") +
                ": was written by a newer CropDL (seam version 3, this one has 2): restart it "
                "with that CropDL");
}

TEST_F(ImageContent, ANewerFormatIsRefused) {
  write_regions(path("a.img"), {});
  std::string file = read(path("a.img"));
  ImageHeader header;
  std::memcpy(&header, file.data(), sizeof header);
  header.format = kImageFormat + 1;
  header.checksum = checksum(&header, offsetof(ImageHeader, checksum));
  std::memcpy(file.data(), &header, sizeof header);
  write(path("a.img"), file);
  Result<ImageReader> reader = ImageReader::open(path("a.img"));
  ASSERT_FALSE(reader);
  EXPECT_NE(reader.error().message.find("newer CropDL (image format 2, this one reads 1)"), std::string::npos)
      << reader.error().message;
}

TEST_F(ImageContent, AFullDiskIsSaidWithWhatIsMissingAndLeavesNoFile) {
  constexpr uint64_t kBytes = 16 << 20;
  Memory memory(kTestAddress, kBytes);
  fill(memory.data(), kBytes, 6);
  Status added;
  {
    FullDisk full(4 << 20);
    Result<ImageWriter> writer = ImageWriter::create(path("a.img"), 1, kBytes);
    ASSERT_TRUE(writer);
    added = writer->add_region({memory.begin(), memory.end(), 3, "big", {{memory.begin(), memory.end()}}});
  }
  ASSERT_FALSE(added);
  EXPECT_EQ(added.error().message,
            "rank image " + path("a.img") + ": File too large (needed about 13 more MB)");
  EXPECT_FALSE(std::filesystem::exists(path("a.img")));
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
