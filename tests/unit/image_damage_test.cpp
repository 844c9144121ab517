// links: cropdl_restart
// No damaged image is accepted, and the refusal says where the damage is.
#include "tests/unit/store_fixture.h"

#include <fcntl.h>

#include <cstring>
#include <random>
#include <regex>

#include "base/checksum.h"
#include "restart/image_layout.h"

namespace cropdl::restart {
namespace {

class ImageDamage : public StoreFixture {
 protected:
  // Two regions with `pages` and 2 stored pages, the first with a hole; a third whose second page comes from
  // a file. `compress`: a part of each page of the first can be compressed.
  std::string image(uint64_t pages, bool compress = false) {
    Memory a(kTestAddress, (pages + 1) * kImagePage), b(kTestAddress + (1 << 30), 2 * kImagePage);
    fill(a.data(), (pages + 1) * kImagePage, 1);
    std::memset(a.data() + kImagePage, 0, kImagePage);
    for (uint64_t i = 0; compress && i <= pages; ++i)
      std::memset(a.data() + i * kImagePage, 0, kImagePage * 15 / 16);
    fill(b.data(), 2 * kImagePage, 2);
    Result<ImageWriter> writer = ImageWriter::create(path("good.img"), 1, 0, false, compress);
    EXPECT_TRUE(writer);
    EXPECT_TRUE(add_region(*writer, {a.begin(), a.end(), 3, "[heap]", {{a.begin(), a.end()}}}));
    EXPECT_TRUE(add_region(*writer, {b.begin(), b.end(), 1, "/lib/c", {{b.begin(), b.end()}}}));
    Memory c(kTestAddress + (2u << 30), 2 * kImagePage);
    fill(c.data(), 2 * kImagePage, 3);
    write(path("c.so"), std::string(c.data(), 2 * kImagePage));
    FilePages original(path("c.so"), c.begin(), 0);
    c.data()[5] ^= 1;
    LivePages live;
    EXPECT_TRUE(
        cut_region({c.begin(), c.end(), 5, "/lib/c.so", {{c.begin(), c.end()}}}, live, &original, *writer));
    EXPECT_TRUE(writer->finish("{\"k\": \"some metadata\"}"));
    std::string file = read(path("good.img"));
    ::unlink(path("good.img").c_str());
    return file;
  }

  // The refusal of an image with these bytes, or "".
  std::string refusal(const std::string& file) {
    ::unlink(path("bad.img").c_str());  // ext4 writes a truncated file back at once, a new one later
    write(path("bad.img"), file);
    Result<ImageReader> reader = ImageReader::open(path("bad.img"));
    if (!reader) return reader.error().message;
    Status good = reader->verify();
    FilePages original(path("c.so"), kTestAddress + (2u << 30), 0);
    for (size_t i = 0; good && i < reader->regions().size(); ++i)
      good = reader->verify_referenced(i, original);
    return good ? "" : good.error().message;
  }

  // The line names the file and an offset range that contains `offset`.
  void expect_located(const std::string& line, size_t offset) {
    ASSERT_EQ(line.find("rank image " + path("bad.img") + ": "), 0u) << "byte " << offset << ": " << line;
    ASSERT_EQ(line.find('\n'), std::string::npos) << line;
    std::smatch range;
    ASSERT_TRUE(std::regex_search(line, range, std::regex("file offset ([0-9]+) to ([0-9]+)"))) << line;
    ASSERT_GE(offset, std::stoull(range[1])) << line;
    ASSERT_LT(offset, std::stoull(range[2])) << line;
  }
};

TEST_F(ImageDamage, AFlippedBitInAnyByteIsRefusedAndLocated) {
  std::string good = image(2), line;
  ASSERT_EQ(refusal(good), "");
  size_t data_end = sizeof(ImageHeader) + 5 * kImagePage;
  for (size_t at = 0; at < good.size(); ++at) {
    bool data = at >= sizeof(ImageHeader) && at < data_end;
    if (data && at % 16 != 5) continue;  // page data are uniform, so every 16th byte; otherwise every byte
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ (1 << (at * 5 % 8)));
    line = refusal(bad);
    ASSERT_NE(line, "") << "accepted with a flipped bit in byte " << at;
    expect_located(line, at);
    if (HasFatalFailure()) return;
  }
}

TEST_F(ImageDamage, OfACompressedImageAFlippedBitInAnyByteIsRefusedAndLocated) {
  const std::string good = image(3, true);
  ASSERT_EQ(refusal(good), "");
  ASSERT_LT(good.size(), image(3).size());
  for (size_t at = 0;
       at<good.size(); at += at> sizeof(ImageHeader) + 1000 && at + 2000 < good.size() ? 16 : 1) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ (1 << (at * 5 % 8)));
    const std::string line = refusal(bad);
    ASSERT_NE(line, "") << "accepted with a flipped bit in byte " << at;
    expect_located(line, at);
    if (HasFatalFailure()) return;
  }
}

// Frames and lengths that no writer makes, under good checksums.
TEST_F(ImageDamage, WrongFramesAndLengthsOfACompressedImageAreRefused) {
  constexpr uint64_t kPages = 201;  // chunks of 63, 64, 64 and 9 stored pages
  const std::string good = image(kPages - 1, true);
  ImageTrailer trailer;
  std::memcpy(&trailer, good.data() + good.size() - sizeof trailer, sizeof trailer);
  // The index: regions, entry, "[heap]", two extents, four checksums, four lengths.
  constexpr size_t kSums = 8 + sizeof(IndexEntry) + 8 + 2 * sizeof(Extent),
                   kLengths = kSums + 4 * sizeof(uint64_t);
  std::vector<uint32_t> lengths(4);
  std::memcpy(lengths.data(), good.data() + trailer.index_offset + kLengths, 16);
  const uint32_t sum = lengths[0] + lengths[1] + lengths[2] + lengths[3];
  ASSERT_GT(sum, 50'000u);
  ASSERT_LT(sum, 80'000u);
  std::string frames = good.substr(sizeof(ImageHeader), sum);
  const auto refused = [&](const std::string& frames, const std::vector<uint32_t>& lengths) {
    std::string bad = good;
    bad.replace(sizeof(ImageHeader), frames.size(), frames);
    char* index = bad.data() + trailer.index_offset;
    uint64_t at = 0;
    for (size_t i = 0; i < 4; at += lengths[i++]) {
      const uint64_t its = at + lengths[i] <= frames.size() ? checksum(frames.data() + at, lengths[i]) : 0;
      std::memcpy(index + kSums + 8 * i, &its, sizeof its);
    }
    std::memcpy(index + kLengths, lengths.data(), 16);
    ImageTrailer changed = trailer;
    changed.index_checksum = checksum(index, trailer.index_bytes);
    changed.checksum = checksum(&changed, offsetof(ImageTrailer, checksum));
    std::memcpy(bad.data() + bad.size() - sizeof changed, &changed, sizeof changed);
    return refusal(bad);
  };
  Memory memory(kTestAddress, kPages * kImagePage);
  const auto loaded = [&] {
    memory.renew();
    const Result<ImageReader> reader = ImageReader::open(path("bad.img"));
    return reader && reader->load_region(0) ? std::string(memory.data(), kPages * kImagePage) : "";
  };
  EXPECT_EQ(refused(frames, lengths), "");
  const std::string before = loaded();
  ASSERT_NE(before, "");
  for (size_t at = 0; at < lengths[0]; at += at < 50 || at + 50 > lengths[0] ? 1 : 97)
    for (const int bit : {1, 16, 128}) {
      std::string bad = frames;
      bad[at] = static_cast<char>(bad[at] ^ bit);
      // A frame has bits without a meaning.
      EXPECT_TRUE(!refused(bad, lengths).empty() || loaded() == before) << at << ", bit " << bit;
    }
  for (const uint32_t other : {0u, 1u, lengths[0] - 1, lengths[0] + 1, 64u << 12, 1u << 30, ~0u})
    EXPECT_NE(refused(frames, {other, lengths[1], lengths[2], lengths[3]}), "") << other;
  const auto moved = [&](uint32_t a, uint32_t b, uint32_t c) {
    return refused(frames, {a, b, c, sum - a - b - c});
  };
  const uint32_t both = lengths[0] + lengths[1];
  EXPECT_NE(moved(0, both, lengths[2]), "");
  EXPECT_NE(moved(both, 0, lengths[2]), "");  // two frames
  EXPECT_NE(moved(lengths[0] + 1, lengths[1] - 1, lengths[2]), "");
  EXPECT_NE(moved(lengths[0] - 1, lengths[1] + 1, lengths[2]), "");
  EXPECT_NE(moved(1, 1, sum - 2 - (9 << 12) - 1), "");  // the last one longer than its pages
  // Good frames of a page less and a page more.
  const std::string swapped = frames.substr(lengths[0], lengths[1]) + frames.substr(0, lengths[0]);
  EXPECT_NE(refused(swapped + frames.substr(both), {lengths[1], lengths[0], lengths[2], lengths[3]}), "");
}

TEST_F(ImageDamage, EveryBitOfTheMetadataIsCovered) {
  std::string good = image(1);
  size_t data_end = sizeof(ImageHeader) + 4 * kImagePage;
  for (size_t at = 0; at < good.size(); ++at) {
    if (at == 64) at = sizeof(ImageHeader) - 16;  // reserved bytes were tested above
    if (at == sizeof(ImageHeader)) at = data_end;
    for (int bit = 0; bit < 8; ++bit) {
      std::string bad = good;
      bad[at] = static_cast<char>(bad[at] ^ (1 << bit));
      ASSERT_NE(refusal(bad), "") << "accepted with bit " << bit << " of byte " << at << " flipped";
    }
  }
}

TEST_F(ImageDamage, DamageInALaterChunkIsLocatedWithinThatChunk) {
  constexpr uint64_t kPages = 200;  // 3 full chunks and one of 8 pages
  std::string good = image(kPages);
  for (size_t at = sizeof(ImageHeader); at < sizeof(ImageHeader) + (kPages + 2) * kImagePage; at += 13007) {
    std::string bad = good, line;
    bad[at] = static_cast<char>(bad[at] ^ 4);
    line = refusal(bad);
    expect_located(line, at);
    std::smatch range;
    ASSERT_TRUE(std::regex_search(line, range, std::regex("file offset ([0-9]+) to ([0-9]+)")));
    EXPECT_LE(std::stoull(range[2]) - std::stoull(range[1]), kImageChunk);
    EXPECT_NE(line.find(at < sizeof(ImageHeader) + kPages * kImagePage ? "[heap]" : "/lib/c"),
              std::string::npos)
        << line;
  }
}

TEST_F(ImageDamage, LoadingRefusesDamagedMemory) {
  std::string bad = image(2);
  bad[sizeof(ImageHeader) + 2 * kImagePage + 7] ^= 1;  // belongs to the second region
  write(path("bad.img"), bad);
  Result<ImageReader> reader = ImageReader::open(path("bad.img"));
  ASSERT_TRUE(reader);
  Memory a(kTestAddress, 3 * kImagePage), b(kTestAddress + (1 << 30), 2 * kImagePage);
  EXPECT_TRUE(reader->load_region(0));
  Status loaded = reader->load_region(1);
  ASSERT_FALSE(loaded);
  expect_located(loaded.error().message, sizeof(ImageHeader) + 2 * kImagePage + 7);
  EXPECT_NE(loaded.error().message.find("region /lib/c, memory from 0x480040000000"), std::string::npos)
      << loaded.error().message;
}

TEST_F(ImageDamage, AnImageCutShortAtAnyLengthIsRefused) {
  std::string good = image(2);
  for (size_t length = 0; length<good.size(); length += length> 5000 && length < good.size() - 500 ? 37 : 1) {
    std::string line = refusal(good.substr(0, length));
    ASSERT_NE(line.find("rank image " + path("bad.img") + ": truncated"), std::string::npos)
        << length << ": " << line;
    ASSERT_NE(line.find("file offset "), std::string::npos) << length << ": " << line;
  }
}

TEST_F(ImageDamage, AnImageCutShortAfterItWasOpenedIsRefused) {
  write(path("bad.img"), image(100));
  Result<ImageReader> reader = ImageReader::open(path("bad.img"));
  ASSERT_TRUE(reader);
  ASSERT_EQ(::truncate(path("bad.img").c_str(), 50000), 0);
  Memory memory(kTestAddress, 101 * kImagePage);
  Status loaded = reader->load_region(0), verified = reader->verify();
  ASSERT_FALSE(loaded);
  EXPECT_NE(loaded.error().message.find("truncated: it ends within region [heap]"), std::string::npos);
  EXPECT_FALSE(verified);
}

TEST_F(ImageDamage, BytesAddedOrTakenOutInTheMiddleAreRefused) {
  std::string good = image(2);
  EXPECT_NE(refusal(good + "x"), "");
  EXPECT_NE(refusal(good + good), "");
  for (size_t at : {size_t{0}, sizeof(ImageHeader), sizeof(ImageHeader) + kImagePage, good.size() - 100}) {
    EXPECT_NE(refusal(good.substr(0, at) + std::string(8, '\0') + good.substr(at)), "") << at;
    EXPECT_NE(refusal(good.substr(0, at) + good.substr(at + 8)), "") << at;
  }
}

TEST_F(ImageDamage, HalvesOfTwoImagesAreRefused) {
  std::string one = image(2), two = one;
  ImageHeader header;
  std::memcpy(&header, two.data(), sizeof header);
  header.reserved[0] = 1;  // a header with a valid checksum
  header.checksum = checksum(&header, offsetof(ImageHeader, checksum));
  std::memcpy(two.data(), &header, sizeof header);
  EXPECT_NE(refusal(two).find("parts that do not belong together"), std::string::npos);
}

// Changed contents with recomputed checksums: the checks of each field must suffice. The image may be
// accepted if it happens to make sense; crashes, hangs and unbounded allocation are errors.
TEST_F(ImageDamage, InvalidContentsWithValidChecksumsNeverCrashTheReader) {
  std::mt19937_64 random(7);
  const uint64_t nasty[] = {0, 1, 7, 4095, 4096, 1ull << 31, 1ull << 32, 1ull << 63, ~0ull, ~0ull << 12};
  int refused = 0;
  const std::string goods[] = {image(2), image(2, true)};
  for (int round = 0; round < 6000; ++round) {
    std::string bad = goods[round / 4 % 2];
    ImageTrailer intact;
    std::memcpy(&intact, bad.data() + bad.size() - sizeof intact, sizeof intact);
    ImageTrailer trailer = intact;
    uint64_t value = random() % 2 ? nasty[random() % std::size(nasty)] : random();
    if (round % 4 == 0) {  // a field of the trailer
      size_t field = 1 + random() % 8;
      std::memcpy(reinterpret_cast<char*>(&trailer) + 8 * field, &value, 8);
    } else {
      size_t word = random() % (intact.index_bytes / 8);
      std::memcpy(bad.data() + intact.index_offset + 8 * word, &value, 8);
      trailer.index_checksum = checksum(bad.data() + intact.index_offset, intact.index_bytes);
    }
    trailer.checksum = checksum(&trailer, offsetof(ImageTrailer, checksum));
    std::memcpy(bad.data() + bad.size() - sizeof trailer, &trailer, sizeof trailer);
    if (!refusal(bad).empty()) ++refused;
  }
  EXPECT_GT(refused, 4000);
}

TEST_F(ImageDamage, RandomBytesAreRefused) {
  std::string good = image(1);
  std::mt19937_64 random(11);
  for (int round = 0; round < 1500; ++round) {
    std::string noise(random() % 9000, '\0');
    for (char& c : noise) c = static_cast<char>(random());
    if (round % 3 == 1) noise = good.substr(0, random() % 4200) + noise;
    if (round % 3 == 2) noise += good.substr(good.size() - random() % 400);
    ASSERT_NE(refusal(noise), "");
  }
}

// A file's size may be huge without data, and the checksum of a hole is quickly computed.
TEST_F(ImageDamage, AnImageOfHolesIsRefusedWithoutMemoryForThem) {
  const std::string good = image(2);
  ImageTrailer intact;
  std::memcpy(&intact, good.data() + good.size() - sizeof intact, sizeof intact);
  for (const uint64_t more : {1ull << 20, 1ull << 26, 1ull << 40})
    for (const bool of_index : {false, true}) {
      ImageTrailer trailer = intact;
      (of_index ? trailer.index_bytes : trailer.metadata_bytes) += more;
      const uint64_t hole = of_index ? intact.metadata_offset : good.size() - sizeof trailer;
      trailer.metadata_offset = trailer.index_offset + trailer.index_bytes;
      trailer.file_bytes += more;
      if (more < 1ull << 30) {
        std::string padded = good.substr(0, hole) + std::string(more, '\0') + good.substr(hole);
        trailer.index_checksum = checksum(padded.data() + trailer.index_offset, trailer.index_bytes);
        trailer.metadata_checksum = checksum(padded.data() + trailer.metadata_offset, trailer.metadata_bytes);
      }
      trailer.checksum = checksum(&trailer, offsetof(ImageTrailer, checksum));
      write(path("bad.img"), good.substr(0, hole));
      const int fd = ::open(path("bad.img").c_str(), O_WRONLY);
      const std::string rest = good.substr(hole, good.size() - sizeof trailer - hole);
      ASSERT_EQ(::pwrite(fd, rest.data(), rest.size(), static_cast<off_t>(hole + more)),
                static_cast<ssize_t>(rest.size()));
      ASSERT_EQ(
          ::pwrite(fd, &trailer, sizeof trailer, static_cast<off_t>(trailer.file_bytes - sizeof trailer)),
          static_cast<ssize_t>(sizeof trailer));
      ::close(fd);
      EXPECT_EQ(in_child([&] {
                  const Result<ImageReader> reader = ImageReader::open(path("bad.img"));
                  if (!reader) std::ofstream(path("line")) << reader.error().message;
                  return reader ? 1 : 0;
                }),
                0)
          << more << (of_index ? " of the index" : " of the metadata");
      EXPECT_NE(read(path("line")).find(of_index ? "damaged in the index" : "damaged in the metadata"),
                std::string::npos)
          << read(path("line"));
      ::unlink(path("line").c_str());
    }
}

TEST_F(ImageDamage, MemoryThatCannotBeHadIsALine) {
  std::string bytes = image(2), metadata(48 << 20, ' ');
  ImageTrailer trailer;
  std::memcpy(&trailer, bytes.data() + bytes.size() - sizeof trailer, sizeof trailer);
  bytes.resize(trailer.metadata_offset);
  trailer.metadata_bytes = metadata.size();
  trailer.metadata_checksum = checksum(metadata);
  trailer.file_bytes = bytes.size() + metadata.size() + sizeof trailer;
  trailer.checksum = checksum(&trailer, offsetof(ImageTrailer, checksum));
  write(path("bad.img"), bytes + metadata + std::string(reinterpret_cast<char*>(&trailer), sizeof trailer));
  bytes.clear(), metadata = std::string();
  EXPECT_EQ(in_child([&] {
              uint64_t pages = 0;
              std::ifstream("/proc/self/statm") >> pages;
              const rlimit little{(pages << 12) + (16 << 20), (pages << 12) + (16 << 20)};
              ::setrlimit(RLIMIT_AS, &little);
              const Result<ImageReader> reader = ImageReader::open(path("bad.img"));
              return !reader && reader.error().message.find("more memory than there is") != std::string::npos
                         ? 0
                         : 1;
            }),
            0);
}

TEST_F(ImageDamage, ALinkIsNotFollowed) {
  write(path("good.img"), image(2));
  ASSERT_EQ(::symlink(path("good.img").c_str(), path("bad.img").c_str()), 0);
  const Result<ImageReader> reader = ImageReader::open(path("bad.img"));
  ASSERT_FALSE(reader);
  EXPECT_EQ(reader.error().message, "rank image " + path("bad.img") + ": is a symbolic link");
}

TEST_F(ImageDamage, NonRegularFilesAreRefusedWithoutBlocking) {
  ASSERT_EQ(::mkfifo(path("fifo").c_str(), 0600), 0);
  EXPECT_EQ(ImageReader::open(path("fifo")).error().message,
            "rank image " + path("fifo") + ": is not a regular file");
  EXPECT_EQ(ImageReader::open(scratch_).error().message,
            "rank image " + scratch_ + ": is not a regular file");
  EXPECT_EQ(ImageReader::open(path("none")).error().message,
            "rank image " + path("none") + ": cannot be opened: No such file or directory");
}

}  // namespace
}  // namespace cropdl::restart
