// links: cropdl_restart
// The machine may stop at any moment: the store on disk still opens, and every version in it is complete.
#include "tests/unit/store_fixture.h"

#include "tests/unit/recorded_files.h"

namespace cropdl::restart {
namespace {

class StoreCrash : public StoreFixture {
 protected:
  // Makes a store with two published versions, one of which is kept, and an abandoned one. Marks record what
  // had been reported to the caller.
  void record() {
    RecordedFiles& files = RecordedFiles::get();
    std::filesystem::create_directory(path("r"));
    files.record_below(path("r"));
    StoreOptions options;
    options.keep.keep = 1;
    {
      Result<Store> store = Store::open_or_create(path("r/s"), test_job(), options);
      ASSERT_TRUE(store) << store.error().message;
      files.mark("opened");
      for (uint64_t n = 1; n <= 2; ++n) {
        ASSERT_TRUE(publish_version(*store));
        files.mark("published " + std::to_string(n));
        [[maybe_unused]] const Status removed = store->remove_old_versions(test_job().job);
      }
      ASSERT_TRUE(store->begin_version());
      store->discard();
    }
    files.stop();
  }

  // Returns "", or what is wrong with the disk's contents. `told`: the marks that had been passed.
  std::string judged(const std::string& root, const std::vector<std::string>& told) {
    uint64_t published = 0;
    bool opened = false;
    for (const std::string& mark : told) {
      opened = true;
      if (mark.rfind("published ", 0) == 0) published = std::stoull(mark.substr(10));
    }
    const std::string directory = root + "/s";
    if (opened && !std::filesystem::exists(directory + "/store.json"))
      return "the store was opened, and is not there";
    if (!std::filesystem::exists(directory)) return "";
    Result<Store> store = Store::open_or_create(directory, test_job());
    if (!store) return "does not open: " + store.error().message;
    bool newest = published == 0;
    for (const Version& version : all_versions(store->reader())) {
      if (Status whole = verify_version(version); !whole)
        return "version " + std::to_string(version.number) +
               " is visible and damaged: " + whole.error().message;
      newest |= version.number == published;
    }
    return newest ? "" : "version " + std::to_string(published) + " was published, and is not there";
  }

  // Tries every crash point with every choice of survivors. Returns the first error, or "".
  std::string first_wrong(int ignored_sync, size_t* tried) {
    const std::vector<FileCall>& calls = RecordedFiles::get().calls();
    std::vector<Luck> lucks;
    for (const auto data : {Luck::kLost, Luck::kZeros})
      for (const auto names : {Luck::kAll, Luck::kLast, Luck::kNone}) lucks.push_back({data, names, 0});
    for (unsigned seed = 1; seed <= 3; ++seed) lucks.push_back({Luck::kAny, Luck::kAnyNames, seed});
    std::vector<std::string> told;
    size_t first = 0;  // omitting a sync changes nothing before it
    for (int syncs = 0; ignored_sync >= 0 && syncs <= ignored_sync; ++first)
      syncs += calls[first].kind == FileCall::kSync;
    // In /dev/shm if possible: thousands of small stores are laid out.
    const std::string scratch = ::access("/dev/shm", W_OK) == 0
                                    ? "/dev/shm/cropdl-crash-" + std::to_string(::getpid())
                                    : path("crash");
    std::filesystem::remove_all(scratch);
    for (size_t until = 0; until <= calls.size(); ++until) {
      if (until > 0 && calls[until - 1].kind == FileCall::kMark) told.push_back(calls[until - 1].name);
      if (until < first) continue;
      for (const Luck& luck : lucks) {
        lay_out_crash(calls, until, luck, ignored_sync, scratch);
        const std::string wrong = judged(scratch, told);
        std::filesystem::remove_all(scratch);
        ++*tried;
        if (!wrong.empty())
          return "crash before call " + std::to_string(until) + " of " + std::to_string(calls.size()) +
                 ", data " + std::to_string(luck.data) + ", names " + std::to_string(luck.names) + ": " +
                 wrong;
      }
    }
    return "";
  }
};

TEST_F(StoreCrash, AtAnyPointAndWithAnyLuckTheStoreOpensAndEveryVisibleVersionIsWhole) {
  record();
  size_t writes = 0, names = 0;
  for (const FileCall& call : RecordedFiles::get().calls()) {
    writes += call.kind == FileCall::kWrite;
    names += call.kind == FileCall::kName;
  }
  ASSERT_GT(writes, 10u) << "the recorder does not see the store's calls";
  ASSERT_GT(names, 20u) << "the recorder does not see the store's calls";
  size_t tried = 0;
  EXPECT_EQ(first_wrong(-1, &tried), "");
  EXPECT_GT(tried, 500u);
}

TEST_F(StoreCrash, WithoutAnyOneOfTheSyncsThatWouldNotBeSo) {
  record();
  int syncs = 0;
  for (const FileCall& call : RecordedFiles::get().calls()) syncs += call.kind == FileCall::kSync;
  ASSERT_GT(syncs, 10);
  for (int i = 0; i < syncs; ++i) {
    size_t tried = 0;
    EXPECT_NE(first_wrong(i, &tried), "")
        << "sync " << i << " of " << syncs << " protects nothing, or the test is blind";
  }
}

}  // namespace
}  // namespace cropdl::restart
