// links: cropdl_restart
// A store is used only by its own job, one at a time, and nothing else is touched.
#include "tests/unit/store_fixture.h"

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>

#include <cerrno>
#include <functional>
#include <utility>

#include "restart/content.h"
#include "restart/store_layout.h"

static bool directories_are_unreadable = false;
static std::function<void()> at_next_read;  // of a directory

// In place of the C library's, in this program.
extern "C" dirent* readdir(DIR* stream) {
  static const auto real = reinterpret_cast<dirent* (*)(DIR*)>(::dlsym(RTLD_NEXT, "readdir"));
  if (at_next_read) std::exchange(at_next_read, {})();
  if (!directories_are_unreadable) return real(stream);
  errno = EIO;
  return nullptr;
}

namespace cropdl::restart {
namespace {

class StoreRefusal : public StoreFixture {
 protected:
  static std::string refusal(const std::string& directory, const StoreIdentity& job = test_job()) {
    Result<Store> store = Store::open_or_create(directory, job);
    return store ? "" : store.error().message;
  }
  // In a child that runs as an ordinary user (this one; `nobody` if the test runs as root).
  std::string refusal_as_user(const std::string& directory) {
    std::string answer = path("answer");
    write(answer, "");
    ::chmod(answer.c_str(), 0666);
    ::chmod(scratch_.c_str(), 0755);
    EXPECT_EQ(in_child([&] {
                if (::geteuid() == 0 &&
                    (::setgroups(0, nullptr) != 0 || ::setgid(kNobody) != 0 || ::setuid(kNobody) != 0))
                  return 1;
                std::ofstream(answer) << refusal(directory);
                return 0;
              }),
              0);
    return read(answer);
  }
  static constexpr uid_t kNobody = 65534;
};

std::string listing(const std::string& directory) {
  std::string names;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(directory))
    names +=
        entry.path().string() + (entry.is_regular_file() ? std::to_string(entry.file_size()) : "") + "\n";
  return names;
}

TEST_F(StoreRefusal, TheStoreOfARunningJobNamesItsProcess) {
  int ready[2], done[2];
  ASSERT_EQ(::pipe(ready), 0);
  ASSERT_EQ(::pipe(done), 0);
  pid_t job = ::fork();
  if (job == 0) {
    Result<Store> store = Store::open_or_create(path("s"), test_job());
    (void)!::write(ready[1], store ? "y" : "n", 1);
    if (::fork() == 0) {  // a child that outlives the job and has inherited its descriptors
      char c;
      ::close(done[1]);
      (void)!::read(done[0], &c, 1);
      ::_exit(0);
    }
    ::pause();
  }
  ::close(done[0]);
  char answer = 0;
  ASSERT_EQ(::read(ready[0], &answer, 1), 1);
  ASSERT_EQ(answer, 'y');
  char host[256] = "";
  ::gethostname(host, sizeof host - 1);
  EXPECT_EQ(refusal(path("s")), "store " + path("s") + ": is used by a running job (pid " +
                                    std::to_string(job) + " on " + host + ")");
  Result<StoreReader> reader = StoreReader::open(path("s"));
  ASSERT_TRUE(reader);
  EXPECT_EQ(reader->live_job()->pid, job);
  ::kill(job, SIGKILL);
  ::waitpid(job, nullptr, 0);
  EXPECT_EQ(reader->live_job()->pid, 0);
  EXPECT_EQ(refusal(path("s")), "") << "a killed job's surviving child must not keep its store";
  ::close(done[1]);
}

TEST_F(StoreRefusal, LookingAtItsOwnStoreOrOpeningItTwiceDoesNotDropTheLock) {
  Result<Store> store = Store::open_or_create(path("s"), test_job());
  ASSERT_TRUE(store);
  EXPECT_NE(refusal(path("s")).find("is used by a running job (pid " + std::to_string(::getpid())),
            std::string::npos);
  EXPECT_EQ(StoreReader::open(path("s"))->live_job()->pid, ::getpid());
  auto taken_elsewhere = [&] { return in_child([&] { return refusal(path("s")).empty() ? 1 : 0; }); };
  EXPECT_EQ(taken_elsewhere(), 0);
  Store moved = std::move(*store);
  EXPECT_EQ(taken_elsewhere(), 0);
}

TEST_F(StoreRefusal, AProgramThatReadsItsStoresLockFileDoesNotDropTheLock) {
  if (in_child([] { return ::unshare(CLONE_FILES) == 0 ? 0 : 1; }) != 0)
    GTEST_SKIP() << "a sandbox forbids tables of descriptors of one's own";
  // Locks the whole file, as earlier versions of CropDL did.
  const auto free_elsewhere = [this] {
    return in_child([&] {
      const int fd = ::open(path("s/lock").c_str(), O_RDWR);
      return lock_bytes(fd, 0, 0) == 0 ? 1 : 0;
    });
  };
  const auto read_lock_file = [this] { ::close(::open(path("s/lock").c_str(), O_RDONLY)); };
  {
    Result<Store> store = Store::open_or_create(path("s"), test_job());
    ASSERT_TRUE(store);
    read_lock_file();
    EXPECT_EQ(free_elsewhere(), 0);
    EXPECT_EQ(
        in_child([this] { return StoreReader::open(path("s"))->live_job()->pid == ::getppid() ? 0 : 1; }), 0);
    Store moved = std::move(*store);
    read_lock_file();
    EXPECT_EQ(free_elsewhere(), 0);
  }
  EXPECT_EQ(free_elsewhere(), 1);
}

TEST_F(StoreRefusal, ClosingTheStoreFreesItsLock) {
  { ASSERT_TRUE(Store::open_or_create(path("s"), test_job())); }
  EXPECT_EQ(StoreReader::open(path("s"))->live_job()->pid, 0);
  EXPECT_EQ(refusal(path("s")), "");
}

TEST_F(StoreRefusal, AStoreOfAnotherJobIsNotMixed) {
  {
    Result<Store> store = Store::open_or_create(path("s"), test_job());
    ASSERT_TRUE(store);
    ASSERT_TRUE(publish_version(*store));
  }
  std::string before = listing(path("s"));
  StoreIdentity program = test_job(), args = test_job(), ranks = test_job(), repeated = test_job();
  program.program = "/bin/other";
  args.args[1] = "4";
  ranks.ranks = 3;
  repeated.job = "a new run of the same";
  EXPECT_EQ(refusal(path("s"), program),
            "store " + path("s") +
                ": belongs to another job, `/bin/train --epochs 3` on 2 ranks; choose "
                "another directory");
  EXPECT_NE(refusal(path("s"), args).find("belongs to another job"), std::string::npos);
  EXPECT_NE(refusal(path("s"), ranks).find("belongs to another job"), std::string::npos);
  EXPECT_EQ(listing(path("s")), before);
  EXPECT_EQ(refusal(path("s"), repeated), "");
}

TEST_F(StoreRefusal, AScriptIsTheSameByEachOfItsPaths) {
  write(path("script"), "");
  StoreIdentity job = test_job();
  job.args = {path("script")};
  {
    Result<Store> store = Store::open_or_create(path("s"), job);
    ASSERT_TRUE(store);
    ASSERT_TRUE(publish_version(*store, job));
  }
  job.args = {path("./script")};
  EXPECT_EQ(refusal(path("s"), job), "");
  job.args = {path("./other")};
  EXPECT_NE(refusal(path("s"), job).find("belongs to another job"), std::string::npos);
}

TEST_F(StoreRefusal, AStoreWithoutVersionsIsTakenOverWhenItsJobHasEnded) {
  StoreIdentity solver = test_job();
  solver.program = "/bin/solver";
  {
    const Result<Store> helper = Store::open_or_create(path("s"), test_job());
    ASSERT_TRUE(helper);
    EXPECT_EQ(in_child([&] {
                return refusal(path("s"), solver).find("is used by a running job") == std::string::npos ? 1
                                                                                                        : 0;
              }),
              0);
  }
  EXPECT_EQ(refusal(path("s"), solver), "");
  EXPECT_EQ(identity_of(path("s"))->value().program, "/bin/solver");
}

TEST_F(StoreRefusal, ALostIdentityIsRewrittenOnlyForTheVersionsOwnJob) {
  {
    Result<Store> store = Store::open_or_create(path("s"), test_job());
    ASSERT_TRUE(store);
    ASSERT_TRUE(publish_version(*store));
  }
  ASSERT_EQ(::unlink(path("s/store.json").c_str()), 0);
  write(path("s/job"), "the control plane's");
  StoreIdentity other = test_job();
  other.program = "/bin/other";
  EXPECT_NE(refusal(path("s"), other).find("belongs to another job, `/bin/train --epochs 3`"),
            std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(path("s/store.json")));
  EXPECT_EQ(refusal(path("s")), "");
  EXPECT_TRUE(std::filesystem::exists(path("s/store.json")));
}

TEST_F(StoreRefusal, ADamagedIdentityIsNamed) {
  { ASSERT_TRUE(Store::open_or_create(path("s"), test_job())); }
  std::string text = read(path("s/store.json"));
  text[text.find("train")] = 'b';
  write(path("s/store.json"), text);
  EXPECT_EQ(refusal(path("s")),
            path("s/store.json") +
                ": damaged: its checksum differs; remove it: the store's versions tell whose it is, too");
}

TEST_F(StoreRefusal, ADirectoryWithOtherThingsInItIsLeftAlone) {
  ASSERT_EQ(::mkdir(path("d").c_str(), 0755), 0);
  write(path("d/thesis.tex"), "all of it");
  EXPECT_EQ(refusal(path("d")),
            "store " + path("d") +
                ": is not empty and not a CropDL store; nothing was changed, choose another "
                "directory");
  EXPECT_EQ(listing(path("d")), path("d/thesis.tex") + "9\n");
  struct stat info;
  ASSERT_EQ(::stat(path("d").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0755u);
  EXPECT_NE(StoreReader::open(path("d")).error().message.find("is not a CropDL store"), std::string::npos);
}

TEST_F(StoreRefusal, ANonDirectoryOrMissingParentIsNamed) {
  write(path("file"), "x");
  EXPECT_EQ(refusal(path("file")), "store " + path("file") + ": is not a directory");
  EXPECT_EQ(refusal(path("no/such")),
            "store " + path("no/such") + ": cannot be created: No such file or directory");
  EXPECT_EQ(StoreReader::open(path("none")).error().message,
            "store " + path("none") + ": No such file or directory");
  EXPECT_EQ(StoreReader::open(path("file")).error().message,
            "store " + path("file") + ": is not a directory");
}

TEST_F(StoreRefusal, ADirectoryOfAnotherUserIsNamed) {
  std::string line = refusal_as_user("/");  // / is root's; the child is not root
  EXPECT_EQ(line.find("store /: belongs to user id 0, not to yours ("), 0u) << line;
}

TEST_F(StoreRefusal, ADirectoryThatCannotBeWrittenIsNamed) {
  ASSERT_EQ(::mkdir(path("d").c_str(), 0500), 0);
  if (::geteuid() == 0) {
    ASSERT_EQ(::chown(path("d").c_str(), kNobody, kNobody), 0);
  }
  EXPECT_EQ(refusal_as_user(path("d")), "store " + path("d") + ": is not writable: Permission denied");
  EXPECT_TRUE(listing(path("d")).empty());
}

TEST_F(StoreRefusal, ALinkThatTakesADirectorysPlaceMeanwhileLeadsNowhere) {
  ASSERT_EQ(::mkdir(path("s").c_str(), 0755), 0);
  ASSERT_EQ(::mkdir(path("elsewhere").c_str(), 0755), 0);
  at_next_read = [this] {
    ASSERT_EQ(::rename(path("s").c_str(), path("former").c_str()), 0);
    ASSERT_EQ(::symlink(path("elsewhere").c_str(), path("s").c_str()), 0);
  };
  EXPECT_EQ(refusal(path("s")), "store " + path("s") +
                                    ": was replaced while it was being opened; choose a directory that "
                                    "nobody else can rename");
  EXPECT_EQ(listing(path("elsewhere")), "");
  struct stat info;
  ASSERT_EQ(::stat(path("elsewhere").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0755u);
}

TEST_F(StoreRefusal, AFullDiskWhileCreatingIsNamed) {
  FullDisk full(0);
  std::string line = refusal(path("s"));
  EXPECT_NE(line.find("cannot be written: File too large"), std::string::npos) << line;
}

TEST_F(StoreRefusal, AFullDiskKeepsNoStoreFromBeingRestartedOrPruned) {
  {
    Result<Store> store = Store::open_or_create(path("s"), test_job());
    ASSERT_TRUE(store);
    ASSERT_TRUE(publish_version(*store));
  }
  ASSERT_EQ(::mkdir(path("s/tmp-v000002-7").c_str(), 0700), 0);
  FullDisk full(0);
  { EXPECT_TRUE(Store::open_existing(path("s"))); }
  Result<Store> store = Store::open_or_create(path("s"), test_job());
  ASSERT_TRUE(store) << store.error().message;
  EXPECT_FALSE(std::filesystem::exists(path("s/tmp-v000002-7")));
  EXPECT_EQ(in_child([this] { return StoreReader::open(path("s"))->live_job()->pid == ::getppid() ? 0 : 1; }),
            0)
      << "the lock names its holder even without a text";
}

TEST_F(StoreRefusal, ADirectoryThatCannotBeReadHoldsNotNothing) {
  Result<Store> store = Store::open_or_create(path("s"), test_job());
  ASSERT_TRUE(store);
  ASSERT_TRUE(publish_version(*store));
  const Result<StoreReader> reader = StoreReader::open(path("s"));
  ASSERT_TRUE(reader);
  directories_are_unreadable = true;
  const Result<Store::Draft> draft = store->begin_version();
  const Result<std::vector<Version>> all = reader->all_versions();
  const Result<Version> newest = reader->version(0);
  const Status removed = store->remove_old_versions(test_job().job);
  const Status set_aside = store->set_old_versions_aside(test_job().job);
  directories_are_unreadable = false;
  ASSERT_FALSE(draft) << "a number was given below that of the newest version";
  const std::string why = "store " + path("s") + ": cannot be read: Input/output error";
  EXPECT_EQ(draft.error().message, why);
  EXPECT_EQ(all.error().message, why);
  EXPECT_EQ(newest.error().message, why);
  EXPECT_EQ(removed.error().message, why);
  EXPECT_EQ(set_aside.error().message, why);
}

TEST_F(StoreRefusal, AStoreWritableByOthersIsNotRestarted) {
  {
    Result<Store> store = Store::open_or_create(path("s"), test_job());
    ASSERT_TRUE(store);
    ASSERT_TRUE(publish_version(*store));
    ASSERT_TRUE(publish_version(*store));
  }
  ASSERT_EQ(::mkdir(path("s/v000002/rank-1.files").c_str(), 0700), 0);
  write(path("s/v000002/rank-1.files/0"), "a file's content");
  ::chmod(path("s/v000002/rank-1.files/0").c_str(), 0600);
  // The newest version that can be restarted, or why none can.
  const auto answer = [this](uint64_t number = 0) -> std::string {
    const auto reader = StoreReader::open(path("s"), Folder::Whose::kMine);
    if (!reader) return reader.error().message;
    const auto version = reader->version(number);
    return version ? std::to_string(version->number) : version.error().message;
  };
  EXPECT_EQ(answer(), "2");
  for (const std::string name : {"/store.json", "/lock", "", "/v000002", "/v000002/manifest.json",
                                 "/v000002/rank-0.img", "/v000002/rank-1.files", "/v000002/rank-1.files/0"}) {
    const std::string one = path("s") + name;
    struct stat before;
    ASSERT_EQ(::stat(one.c_str(), &before), 0);
    for (const mode_t more : {S_IWGRP, S_IWOTH}) {
      ASSERT_EQ(::chmod(one.c_str(), before.st_mode | more), 0);
      const bool of_version = name.find("/v") == 0;
      EXPECT_EQ(answer().find((of_version ? "version 2 cannot be used: " : "store ") + one +
                              ": others may write to it (mode 0"),
                0u)
          << answer();
      EXPECT_EQ(answer(1), of_version ? "1" : answer()) << "that one was asked for";
      EXPECT_TRUE(StoreReader::open(path("s"))->version(2)) << "anybody may look";
      ASSERT_EQ(::chmod(one.c_str(), before.st_mode), 0);
    }
    ::chmod(one.c_str(), before.st_mode | 0055);
    EXPECT_EQ(answer(), "2") << "others may read";
    ::chmod(one.c_str(), before.st_mode);
    if (::geteuid() != 0) continue;
    ASSERT_EQ(::chown(one.c_str(), kNobody, kNobody), 0);
    EXPECT_NE(
        answer().find(one + ": belongs to user id 65534, not to yours (0); only its owner may restart it"),
        std::string::npos)
        << answer();
    ASSERT_EQ(::chown(one.c_str(), 0, 0), 0);
  }
  // As in /tmp. Files that are replaced later are not used.
  ::chmod(scratch_.c_str(), 01777);
  const auto reader = StoreReader::open(path("s"), Folder::Whose::kMine);
  ASSERT_TRUE(reader);
  ASSERT_EQ(::rename(path("s").c_str(), path("moved").c_str()), 0);
  ASSERT_EQ(::mkdir(path("s").c_str(), 0700), 0);
  const auto version = reader->version(0);
  ASSERT_TRUE(version);
  EXPECT_TRUE(verify_version(*version));
  ASSERT_EQ(::chmod(path("moved/v000002/rank-0.img").c_str(), 0666), 0);
  EXPECT_FALSE(ImageReader::open(*version->folder(), "rank-0.img"));
}

TEST_F(StoreRefusal, NothingIsOpenedOutsideOfAStore) {
  {
    Result<Store> store = Store::open_or_create(path("s"), test_job());
    ASSERT_TRUE(store);
    ASSERT_TRUE(publish_version(*store));
  }
  const Version version = *StoreReader::open(path("s"))->version(1);
  const Result<Folder> folder = version.folder();
  ASSERT_TRUE(folder);
  write(path("outside"), "x");
  for (const std::string& name :
       {std::string(), std::string("."), std::string(".."), std::string("../../outside"), path("outside"),
        std::string("a/b"), std::string("rank-0.img\0x", 12)}) {
    EXPECT_FALSE(folder->file(name)) << name;
    EXPECT_FALSE(folder->folder(name)) << name;
    EXPECT_FALSE(open_stored(*folder, name)) << name;
    EXPECT_FALSE(open_stored(*folder, "../" + name)) << name;
    EXPECT_FALSE(open_stored(*folder, name + "/..")) << name;
  }
  ASSERT_EQ(::mkfifo(path("s/v000001/fifo").c_str(), 0600), 0);
  ASSERT_EQ(::symlink(path("outside").c_str(), path("s/v000001/link").c_str()), 0);
  ASSERT_EQ(::symlink(scratch_.c_str(), path("s/v000001/folder").c_str()), 0);
  EXPECT_EQ(folder->file("fifo").error().message, path("s/v000001/fifo") + ": is not a regular file");
  EXPECT_EQ(folder->file("link").error().message, path("s/v000001/link") + ": is a symbolic link");
  EXPECT_EQ(folder->folder("folder").error().message, path("s/v000001/folder") + ": is not a directory");
  EXPECT_FALSE(open_stored(*folder, "folder/outside"));
}

TEST_F(StoreRefusal, AnEmptyStoreSaysSo) {
  Result<Store> store = Store::open_or_create(path("s"), test_job());
  ASSERT_TRUE(store);
  EXPECT_EQ(store->reader().version(0).error().message, "store " + path("s") + ": holds no complete version");
}

}  // namespace
}  // namespace cropdl::restart
