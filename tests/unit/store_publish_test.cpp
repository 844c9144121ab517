// links: cropdl_restart
// Versions appear completely or not at all, and published ones stay.
#include "tests/unit/store_fixture.h"

#include <fcntl.h>

#include <atomic>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <thread>

namespace cropdl::restart {
namespace {

using StorePublish = StoreFixture;

Store open_store(const std::string& directory, StoreOptions options = {}) {
  Result<Store> store = Store::open_or_create(directory, test_job(), std::move(options));
  EXPECT_TRUE(store) << store.error().message;
  return std::move(*store);
}

std::vector<uint64_t> numbers(const std::string& directory) {
  std::vector<uint64_t> list;
  Result<StoreReader> reader = StoreReader::open(directory);
  EXPECT_TRUE(reader) << reader.error().message;
  for (const Version& version : all_versions(*reader))
    if (version.damage.empty()) list.push_back(version.number);
  return list;
}

size_t temporaries(const std::string& directory) {
  size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(directory))
    count += entry.path().filename().string().rfind("tmp-", 0) == 0;
  return count;
}

TEST_F(StorePublish, VersionsAreNumberedListedNewestFirstAndVerified) {
  Store store = open_store(path("s"));
  EXPECT_TRUE(numbers(path("s")).empty());
  for (uint64_t n = 1; n <= 3; ++n) {
    Result<uint64_t> published = publish_version(store);
    ASSERT_TRUE(published) << published.error().message;
    EXPECT_EQ(*published, n);
  }
  EXPECT_EQ(numbers(path("s")), (std::vector<uint64_t>{3, 2, 1}));
  Result<Version> newest = store.reader().version(0);
  ASSERT_TRUE(newest);
  EXPECT_EQ(newest->number, 3u);
  EXPECT_EQ(newest->directory, path("s") + "/v000003");
  EXPECT_EQ(newest->manifest.program, "/bin/train");
  EXPECT_EQ(newest->manifest.version, 3u);
  EXPECT_TRUE(verify_version(*newest));
  EXPECT_EQ(store.reader().version(2)->number, 2u);
  EXPECT_EQ(store.reader().version(9).error().message, "store " + path("s") + ": has no version 9");
}

TEST_F(StorePublish, AVersionAppearsByTheRenameAndNotBefore) {
  std::vector<std::string> seen;
  StoreOptions options;
  options.on_phase = [&](const char* phase) {
    seen.push_back(std::string(phase) + " " + std::to_string(numbers(path("s")).size()));
  };
  Store store = open_store(path("s"), options);
  ASSERT_TRUE(publish_version(store));
  EXPECT_EQ(seen, (std::vector<std::string>{"manifest 0", "synced 0", "renamed 1", "published 1"}));
}

TEST_F(StorePublish, AWriterKilledAtAnyPhaseLosesNothingThatWasPublished) {
  for (std::string fatal : {"image", "manifest", "synced", "renamed", "published"}) {
    std::string directory = path(fatal);
    {
      Store store = open_store(directory);
      ASSERT_TRUE(publish_version(store));
    }
    int status = in_child([&] {
      StoreOptions options;
      options.on_phase = [&](const char* phase) {
        if (fatal == phase) ::raise(SIGKILL);
      };
      Result<Store> store = Store::open_or_create(directory, test_job(), options);
      if (!store) return 1;
      if (fatal == "image") {
        Result<Store::Draft> draft = store->begin_version();
        write_image(draft->directory, 0);
        ::raise(SIGKILL);
      }
      (void)publish_version(*store);
      return 2;
    });
    ASSERT_EQ(status, 128 + SIGKILL) << fatal;
    bool visible = fatal == "renamed" || fatal == "published";
    EXPECT_EQ(numbers(directory).size(), visible ? 2u : 1u) << fatal;
    EXPECT_EQ(temporaries(directory), visible ? 0u : 1u) << fatal;

    Store store = open_store(directory);
    EXPECT_EQ(temporaries(directory), 0u) << "leftovers stay after a writer killed at " << fatal;
    Result<uint64_t> next = publish_version(store);
    ASSERT_TRUE(next) << next.error().message;
    EXPECT_EQ(*next, visible ? 3u : 2u);
    for (const Version& version : all_versions(store.reader())) EXPECT_TRUE(verify_version(version)) << fatal;
  }
}

TEST_F(StorePublish, TheUsersOwnFilesAreNoLeftovers) {
  const std::vector<std::string> users = {"tmp-results",        "tmp-v1",
                                          "tmp-v000001",        "tmp-v000001-",
                                          "tmp-v000001-1-2-3",  "tmp-v000001-x-removed",
                                          "tmp-store.json.bak", "tmp-cropdl-doctor-x"};
  const std::vector<std::string> ours = {"tmp-v000001-12", "tmp-v000001-12-3-removed", "tmp-v1000000-removed",
                                         "tmp-store.json", "tmp-cropdl-doctor-7"};
  { Store store = open_store(path("s")); }
  for (const auto& names : {users, ours})
    for (const std::string& name : names) ASSERT_EQ(::mkdir((path("s/") + name).c_str(), 0700), 0);
  Store store = open_store(path("s"));
  EXPECT_TRUE(store.set_leftovers_aside().empty());
  for (const std::string& name : users) EXPECT_TRUE(std::filesystem::exists(path("s/") + name)) << name;
  for (const std::string& name : ours) EXPECT_FALSE(std::filesystem::exists(path("s/") + name)) << name;
  write(path("tmp-results"), "a directory with the user's files is no store");
  ASSERT_EQ(::mkdir(path("d").c_str(), 0700), 0);
  ASSERT_EQ(::rename(path("tmp-results").c_str(), path("d/tmp-results").c_str()), 0);
  EXPECT_FALSE(Store::open_or_create(path("d"), test_job()));
}

TEST_F(StorePublish, AMeasurementOfTheDiskLeavesNothingAndEndsEarlyIfAsked) {
  constexpr uint64_t kWritten = 48 << 20, kMuch = uint64_t{16} << 30;
  ASSERT_EQ(::mkdir(path("s").c_str(), 0700), 0);
  const Result<double> speed = measure_disk(path("s"), kWritten);
  ASSERT_TRUE(speed) << speed.error().message;
  EXPECT_GT(*speed, 0);
  std::jthread measures([&](const std::stop_token& stop) {
    const Result<double> stopped = measure_disk(path("s"), kMuch, stop);
    EXPECT_FALSE(stopped);
    EXPECT_EQ(stopped.error().message, errno_text(ECANCELED));
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  measures.request_stop();
  measures.join();
  EXPECT_TRUE(std::filesystem::is_empty(path("s")));
  EXPECT_FALSE(measure_disk(path("nowhere"), kWritten));
}

TEST_F(StorePublish, DirectoriesAndFilesAreTheOwnersAlone) {
  ::umask(0);
  ASSERT_EQ(::mkdir(path("s").c_str(), 0755), 0);  // an existing empty directory
  Store store = open_store(path("s"));
  ASSERT_TRUE(publish_version(store));
  struct stat info;
  ASSERT_EQ(::stat(path("s").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0700u);
  size_t seen = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(path("s"))) {
    ASSERT_EQ(::stat(entry.path().c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 07777, entry.is_directory() ? 0700u : 0600u) << entry.path();
    ++seen;
  }
  EXPECT_EQ(seen, 6u);  // store.json, lock, v000001, manifest.json, two images
}

TEST_F(StorePublish, ADiscardedDraftLeavesNothing) {
  Store store = open_store(path("s"));
  Result<Store::Draft> draft = store.begin_version();
  ASSERT_TRUE(draft);
  write_image(draft->directory, 0);
  store.discard();
  EXPECT_EQ(temporaries(path("s")), 0u);
  EXPECT_FALSE(store.publish(test_manifest()));
}

TEST_F(StorePublish, ANumberThatNobodyWouldRecogniseIsNotGiven) {
  Store store = open_store(path("s"));
  ASSERT_EQ(::mkdir(path("s/v999999999999999999").c_str(), 0700), 0);
  const Result<Store::Draft> draft = store.begin_version();
  ASSERT_FALSE(draft);
  EXPECT_EQ(draft.error().message,
            "store " + path("s") +
                ": version 999999999999999999 has the largest number that there is; choose "
                "another directory");
}

TEST_F(StorePublish, AMissingOrShortImageIsNotPublished) {
  Store store = open_store(path("s"));
  ASSERT_TRUE(publish_version(store));
  Result<Store::Draft> draft = store.begin_version();
  ASSERT_TRUE(draft);
  Manifest manifest = test_manifest();
  manifest.images = {write_image(draft->directory, 0), write_image(draft->directory, 1)};
  ASSERT_EQ(::truncate((draft->directory + "/rank-1.img").c_str(), 100), 0);
  Result<uint64_t> published = store.publish(manifest);
  ASSERT_FALSE(published);
  EXPECT_EQ(published.error().message.find("version 2 is given up: rank image "), 0u)
      << published.error().message;
  EXPECT_NE(published.error().message.find("rank-1.img: truncated"), std::string::npos);
  EXPECT_EQ(numbers(path("s")), std::vector<uint64_t>{1});
  EXPECT_EQ(temporaries(path("s")), 1u);  // the ranks continue before it is removed
  store.discard();
  EXPECT_EQ(temporaries(path("s")), 0u);
}

TEST_F(StorePublish, AFullDiskKeepsOlderVersionsAndTheNextAttemptWorks) {
  Store store = open_store(path("s"));
  ASSERT_TRUE(publish_version(store));
  Result<Store::Draft> draft = store.begin_version();
  ASSERT_TRUE(draft);
  Manifest manifest = test_manifest();
  manifest.images = {write_image(draft->directory, 0), write_image(draft->directory, 1)};
  {
    FullDisk full(100);
    Result<uint64_t> published = store.publish(manifest);
    ASSERT_FALSE(published);
    EXPECT_NE(published.error().message.find("manifest.json: cannot be written: File too large"),
              std::string::npos)
        << published.error().message;
  }
  store.discard();
  EXPECT_EQ(numbers(path("s")), std::vector<uint64_t>{1});
  EXPECT_EQ(temporaries(path("s")), 0u);
  EXPECT_TRUE(verify_version(*store.reader().version(1)));
  EXPECT_EQ(*publish_version(store), 2u);
}

TEST_F(StorePublish, ADamagedNewestVersionIsNamedAndTheOneBeforeItChosen) {
  Store store = open_store(path("s"));
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(publish_version(store));
  std::string manifest = path("s") + "/v000003/manifest.json", text = read(manifest);
  text[text.size() / 2] ^= 1;
  write(manifest, text);
  ASSERT_EQ(::truncate((path("s") + "/v000002/rank-0.img").c_str(), 5), 0);
  std::vector<Version> all = all_versions(store.reader());
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0].damage.find(manifest + ": damaged: "), 0u) << all[0].damage;
  EXPECT_NE(all[1].damage.find("v000002/rank-0.img: truncated: has 5 bytes"), std::string::npos)
      << all[1].damage;
  EXPECT_EQ(store.reader().version(0)->number, 1u);
  EXPECT_FALSE(store.reader().version(3));
  EXPECT_FALSE(verify_version(all[0]));
  EXPECT_EQ(*publish_version(store), 4u);
}

TEST_F(StorePublish, AnImageOfAnotherVersionIsFoundByVerifying) {
  Store store = open_store(path("s"));
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(publish_version(store));
  std::filesystem::copy_file(path("s") + "/v000001/rank-1.img", path("s") + "/v000002/rank-1.img",
                             std::filesystem::copy_options::overwrite_existing);
  Status whole = verify_version(*store.reader().version(2));
  ASSERT_FALSE(whole);
  EXPECT_NE(whole.error().message.find("is not the one that the manifest lists"), std::string::npos);
}

TEST_F(StorePublish, ADataSetThatAVersionNeedsIsNamedAndItsChangesAreLocated) {
  const std::string data = path("data");
  write(data, "0123456789");
  struct stat info;
  ASSERT_EQ(::stat(data.c_str(), &info), 0);
  nlohmann::json region, metadata;
  region["file"] = {
      {"path", data},
      {"left_in_file", true},
      {"identity",
       {{"size", info.st_size}, {"modified", info.st_mtim.tv_sec * 1'000'000'000 + info.st_mtim.tv_nsec}}}};
  metadata["memory"]["regions"].push_back(region);
  Store store = open_store(path("s"));
  const Result<Store::Draft> draft = store.begin_version();
  ASSERT_TRUE(draft);
  Manifest manifest = test_manifest();
  for (uint32_t rank = 0; rank < manifest.ranks; ++rank)
    manifest.images.push_back(write_image(draft->directory, rank, 1, metadata.dump()));
  ASSERT_TRUE(store.publish(manifest));

  Outside outside;
  const Version version = *store.reader().version(1);
  const Status good = verify_version(version, &outside);
  EXPECT_TRUE(good) << good.error().message;
  EXPECT_EQ(outside.data_sets, std::vector<std::string>{data});
  EXPECT_FALSE(outside.left_out);
  EXPECT_TRUE(outside.as_they_were);
  const auto trouble = [&version] {
    Outside now;
    EXPECT_TRUE(verify_version(version, &now)) << "nothing of the version is damaged";
    return now.as_they_were ? std::string() : now.as_they_were.error().message;
  };
  const timespec later[] = {info.st_atim, {info.st_mtim.tv_sec + 1, info.st_mtim.tv_nsec}};
  ASSERT_EQ(::utimensat(AT_FDCWD, data.c_str(), later, 0), 0);
  EXPECT_EQ(
      trouble().find(data + ", which the program has mapped and only reads, is not saved, and is not as"),
      0u);
  ASSERT_EQ(::unlink(data.c_str()), 0);
  EXPECT_EQ(trouble().find(data + ", which the program has mapped and only reads, is not saved, and cannot"),
            0u);
}

TEST_F(StorePublish, OnlyTheNewestVersionsOfTheSameJobAreKept) {
  StoreOptions options;
  options.keep.keep = 2;
  Store store = open_store(path("s"), options);
  StoreIdentity earlier = test_job();
  earlier.job = "an earlier run of the same program";
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(publish_version(store, earlier));
  for (int i = 0; i < 4; ++i) {
    ASSERT_TRUE(publish_version(store));
    ASSERT_TRUE(store.remove_old_versions(test_job().job));
  }
  EXPECT_EQ(numbers(path("s")), (std::vector<uint64_t>{6, 5, 2, 1}));
  EXPECT_EQ(temporaries(path("s")), 0u);
}

// It would lose its name if its directory could not be synced.
TEST_F(StorePublish, AVersionThatIsNotDurableYetReplacesNone) {
  StoreOptions options;
  options.keep.keep = 1;
  Store* writer = nullptr;
  std::string old;
  options.on_phase = [&](const char* phase) {
    const Result<std::vector<uint64_t>> doomed = writer->old_versions(test_job().job);
    ASSERT_TRUE(doomed);
    old += phase + std::string(doomed->empty() ? " " : "! ");
  };
  Store store = open_store(path("s"), options);
  writer = &store;
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(publish_version(store));
  EXPECT_EQ(old, "manifest synced renamed published manifest synced renamed published! ");
}

TEST_F(StorePublish, TheVersionThatWasRestartedStaysAndNotThoseThatWerePassedOver) {
  Store store = open_store(path("s"));
  for (int i = 0; i < 8; ++i) ASSERT_TRUE(publish_version(store));
  ASSERT_TRUE(store.remove_old_versions(test_job().job));
  ASSERT_TRUE(publish_version(store, test_job(), 5));  // 6 to 8 have their sizes and could not be loaded
  ASSERT_TRUE(store.remove_old_versions(test_job().job));
  EXPECT_EQ(numbers(path("s")), (std::vector<uint64_t>{9, 8, 7, 6, 5}));
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(publish_version(store));
  ASSERT_TRUE(store.remove_old_versions(test_job().job));
  EXPECT_EQ(numbers(path("s")), (std::vector<uint64_t>{12, 11, 10, 9}));
}

TEST_F(StorePublish, DamagedVersionsAreNotAmongThoseThatAreKept) {
  StoreOptions options;
  options.keep.keep = 2;
  Store store = open_store(path("s"), options);
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(publish_version(store));
  write(path("s") + "/v000003/manifest.json", "{");
  ASSERT_EQ(::truncate((path("s") + "/v000004/rank-1.img").c_str(), 100), 0);
  ASSERT_TRUE(store.remove_old_versions(test_job().job));
  EXPECT_EQ(numbers(path("s")), (std::vector<uint64_t>{2, 1}));
  ASSERT_TRUE(publish_version(store));
  ASSERT_TRUE(store.remove_old_versions(test_job().job));
  EXPECT_EQ(numbers(path("s")), (std::vector<uint64_t>{5, 2}));
  for (const Version& version : all_versions(store.reader())) {
    EXPECT_EQ(static_cast<bool>(verify_version(version)), version.number == 5 || version.number == 2);
  }
}

TEST_F(StorePublish, AVersionThatCannotBeRemovedIsNamedAndKeepsNoOther) {
  StoreOptions options;
  options.keep.keep = 1;
  Store store = open_store(path("s"), options);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(publish_version(store));
  const std::string in_the_way = path("s") + "/tmp-v000001-removed";
  std::filesystem::create_directories(in_the_way + "/full");
  const Status removed = store.remove_old_versions(test_job().job);
  EXPECT_EQ(numbers(path("s")), (std::vector<uint64_t>{3, 1}));
  ASSERT_FALSE(removed);
  EXPECT_EQ(removed.error().message, "version 1 cannot be removed: Directory not empty");
}

TEST_F(StorePublish, AVersionRemovedDuringALookIsNotDamaged) {
  StoreOptions options;
  options.keep.keep = 2;
  Store store = open_store(path("s"), options);
  ASSERT_TRUE(publish_version(store));
  std::atomic<bool> over = false;
  std::thread looks([&] {
    const Result<StoreReader> reader = StoreReader::open(path("s"));
    ASSERT_TRUE(reader) << reader.error().message;
    while (!over) {
      const std::vector<Version> versions = all_versions(*reader);
      EXPECT_FALSE(versions.empty());
      for (auto v = versions.rbegin(); v != versions.rend(); ++v) {
        EXPECT_TRUE(v->damage.empty() || is_gone(*v)) << v->damage;
        const Status whole = verify_version(*v);
        EXPECT_TRUE(whole || is_gone(*v)) << whole.error().message;
      }
    }
  });
  for (int i = 0; i < 100; ++i) {
    EXPECT_TRUE(publish_version(store));
    EXPECT_TRUE(store.remove_old_versions(test_job().job));
  }
  over = true;
  looks.join();
}

}  // namespace
}  // namespace cropdl::restart
