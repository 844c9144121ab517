// links: cropdl_commands
// Archives of `cropdl export`: holes stay holes, and an unfinished archive is recognised as incomplete.
#include "restart/cli/archive.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

namespace cropdl::cli {
namespace {

constexpr int64_t kGigabyte = 1 << 30;

Descriptor opened(const std::string& path, int flags = O_RDWR | O_CREAT) {
  return Descriptor(open(path.c_str(), flags | O_CLOEXEC, 0600));
}

class Archive : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "/cropdl-archive.XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    path_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(path_); }
  std::string path_;
};

TEST_F(Archive, HolesStayHoles) {
  // Data at the beginning, in the middle, at the end, nowhere; and an empty file.
  const std::vector<std::vector<int64_t>> all = {{0}, {kGigabyte / 3}, {kGigabyte - 4}, {}};
  const Descriptor out = opened(path_ + "/archive");
  auto writer = ArchiveWriter::open(out.fd(), "archive");
  ASSERT_TRUE(writer);
  for (size_t i = 0; i < all.size(); ++i) {
    const Descriptor file = opened(path_ + "/in");
    ASSERT_EQ(ftruncate(file.fd(), 0), 0);
    ASSERT_EQ(ftruncate(file.fd(), kGigabyte), 0);
    for (const int64_t at : all[i]) ASSERT_EQ(pwrite(file.fd(), "data", 4, at), 4);
    const Status added = writer->add(std::to_string(i), file, "in");
    ASSERT_TRUE(added) << added.error().message;
  }
  ASSERT_EQ(ftruncate(opened(path_ + "/in").fd(), 0), 0);
  ASSERT_TRUE(writer->add("empty", opened(path_ + "/in"), "in"));
  ASSERT_TRUE(writer->finish());
  struct stat info;
  ASSERT_EQ(fstat(out.fd(), &info), 0);
  EXPECT_LT(info.st_size, 1 << 20);

  const Descriptor in = opened(path_ + "/archive", O_RDONLY);
  auto reader = ArchiveReader::open(in.fd(), "archive");
  ASSERT_TRUE(reader);
  for (size_t i = 0; i <= all.size(); ++i) {
    const auto entry = reader->next();
    ASSERT_TRUE(entry && *entry);
    const int64_t size = i < all.size() ? kGigabyte : 0;
    EXPECT_EQ((*entry)->bytes, static_cast<uint64_t>(size));
    const std::string path = path_ + "/out" + std::to_string(i);
    const Descriptor copy = opened(path);
    const Status extracted = reader->extract(copy, path);
    ASSERT_TRUE(extracted) << extracted.error().message;
    ASSERT_EQ(fstat(copy.fd(), &info), 0);
    EXPECT_EQ(info.st_size, size);
    EXPECT_LT(info.st_blocks * 512, 1 << 20);
    if (i == all.size()) continue;
    for (const int64_t at : all[i]) {
      char text[4];
      ASSERT_EQ(pread(copy.fd(), text, 4, at), 4);
      EXPECT_EQ(std::string(text, 4), "data");
    }
  }
  const auto end = reader->next();
  EXPECT_TRUE(end && !*end);
}

TEST_F(Archive, ThatWasNotFinishedIsNotWhole) {
  {
    const Descriptor file = opened(path_ + "/in");
    ASSERT_EQ(pwrite(file.fd(), "data", 4, 0), 4);
    const Descriptor out = opened(path_ + "/archive");
    auto writer = ArchiveWriter::open(out.fd(), "archive");
    ASSERT_TRUE(writer);
    ASSERT_TRUE(writer->add("file", file, "in"));
    const Descriptor folder = opened(path_, O_RDONLY);  // reading it fails
    EXPECT_FALSE(writer->add("broken", folder, path_));
  }
  const Descriptor in = opened(path_ + "/archive", O_RDONLY);
  auto reader = ArchiveReader::open(in.fd(), "archive");
  bool whole = static_cast<bool>(reader);
  while (whole) {
    const auto entry = reader->next();
    whole = static_cast<bool>(entry);
    if (whole && !*entry) break;
  }
  EXPECT_FALSE(whole);
}

}  // namespace
}  // namespace cropdl::cli
