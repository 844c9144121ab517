// links: cropdl_session
// What rank 0 writes of a version: the ranks' images, where its stall went, and which version it continues.
#include "restart/session/version_store.h"

#include "tests/unit/store_fixture.h"

namespace cropdl::session {
namespace {

using VersionStoreTest = restart::StoreFixture;

coord::NewVersion version_in(const std::string& directory) {
  coord::NewVersion version;
  for (const uint32_t rank : {0u, 1u}) {
    const restart::ManifestImage image = restart::write_image(directory, rank);
    version.images.push_back(
        {image.file, image.bytes, image.memory, image.checksum, 0, "", 7 + rank, rank == 0 ? 0.5 : 0.25});
  }
  version.stall_seconds = 2, version.stopping_seconds = 0.125, version.draining_seconds = 0.25;
  version.wait_seconds = 0.0625;
  return version;
}

TEST_F(VersionStoreTest, KeepsWhereTheStallWentAndItsSlowestSync) {
  Result<restart::Store> opened = restart::Store::open_or_create(path("s"), restart::test_job());
  ASSERT_TRUE(opened) << opened.error().message;
  VersionStore store(std::move(*opened), restart::test_manifest());
  store.set_parent(5);
  for (const uint64_t number : {1u, 2u}) {
    const Result<std::string> directory = store.begin();
    ASSERT_TRUE(directory) << directory.error().message;
    const Result<uint64_t> published = store.publish(version_in(*directory));
    ASSERT_TRUE(published) << published.error().message;
    EXPECT_EQ(*published, number);
  }
  const Result<restart::StoreReader> reader = restart::StoreReader::open(path("s"));
  ASSERT_TRUE(reader) << reader.error().message;
  const Result<std::vector<restart::Version>> versions = reader->all_versions();
  ASSERT_TRUE(versions && versions->size() == 2);
  for (const restart::Version& version : *versions) {
    EXPECT_EQ(version.damage, "");
    const restart::Manifest& m = version.manifest;
    EXPECT_EQ(m.stall_seconds, 2);
    EXPECT_EQ(m.wait_seconds, 0.0625);
    EXPECT_EQ(m.stages.stopping, 0.125);
    EXPECT_EQ(m.stages.draining, 0.25);
    EXPECT_EQ(m.stages.syncing, 0.5) << "of the two ranks', the longer one";
    ASSERT_EQ(m.images.size(), 2u);
    EXPECT_EQ(m.images[1].iteration, 8u);
    // The first one continues the version of the restart; the next one continues it in the same run.
    EXPECT_EQ(m.parent, m.version == 1 ? 5u : 1u);
    EXPECT_EQ(m.restarted, m.version == 1);
  }
}

}  // namespace
}  // namespace cropdl::session
