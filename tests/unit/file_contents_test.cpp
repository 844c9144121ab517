// links: cropdl_files
// How a restart changes the program's files, and only these. Runs in any process.
#include "restart/files/file_contents.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <thread>
#include <utility>

#include "interpose/seam/state.h"
#include "restart/content.h"
#include "restart/files/closed_mode.h"
#include "restart/files/descriptors.h"
#include "restart/files/directories.h"
#include "restart/files/reopen_files.h"

namespace cropdl::files {
namespace {

class FileContents : public ::testing::Test {
 protected:
  FileContents() {
    std::string pattern = "/tmp/cropdl-contents.XXXXXX";
    folder_ = ::mkdtemp(pattern.data());
  }
  ~FileContents() override {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }

  std::string path(const std::string& name) const { return folder_ + "/" + name; }
  void write(const std::string& name, const std::string& text) const { std::ofstream(path(name)) << text; }
  std::string read(const std::string& name) const {
    std::ifstream in(path(name));
    return {std::istreambuf_iterator<char>(in), {}};
  }

  // As if somebody had changed the name's file after check_content(); with kKeep it accepts any regular file.
  Status apply(const FileContent& content, FilesPolicy policy = FilesPolicy::kKeep) const {
    const Result<Folder> version = Folder::open(folder_, Folder::Whose::kMine);
    if (!version) return version.error();
    std::string done;
    FileIdentity its;
    return apply_content(content, *version, policy, &done, &its);
  }

  // The present state of the file `log`, saved at the path `stored` if given.
  FileContent saved(const std::string& stored) const {
    FileContent content;
    content.path = path("log");
    content.identity = *identify_file(-1, content.path);
    content.stored = stored;
    if (stored.empty()) return content;
    const Descriptor file = open_high(content.path, O_RDONLY);
    content.checksum =
        *restart::content_checksum(file.fd(), 0, static_cast<uint64_t>(content.identity.size), content.path);
    std::filesystem::create_directory(path("rank-0.files"));
    std::filesystem::permissions(path("rank-0.files"), std::filesystem::perms::owner_all);
    std::filesystem::copy_file(content.path, path(stored));
    std::filesystem::permissions(path(stored),
                                 std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
    return content;
  }

  // Another file gets the name. The former one is kept, so that its inode is not reused.
  void replace(const std::string& text) const {
    std::filesystem::rename(path("log"), path("former"));
    write("log", text);
  }

  std::string folder_;
};

TEST_F(FileContents, AnotherFileThatTookTheNameMeanwhileIsNotOverwritten) {
  write("log", "then");
  const FileContent content = saved("rank-0.files/0");
  write("log", "later");
  const Status back = apply(content);
  EXPECT_TRUE(back) << back.error().message;
  EXPECT_EQ(read("log"), "then");
  replace("of somebody else");
  const Status refused = apply(content);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("log: was replaced while the program was being restarted"),
            std::string::npos)
      << refused.error().message;
  EXPECT_EQ(read("log"), "of somebody else");
  write("log", "then");  // made again by another rank
  EXPECT_TRUE(apply(content));
}

TEST_F(FileContents, AFileThatARestartMadeAgainIsKnownToTheNextOne) {
  write("log", "then");
  const FileContent content = saved("rank-0.files/0");
  std::filesystem::remove(path("log"));
  const Status made = apply(content, FilesPolicy::kTruncate);
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_EQ(read("log"), "then");
  write("log", "written after the restart");
  const Result<Folder> version = Folder::open(folder_, Folder::Whose::kMine);
  ASSERT_TRUE(version);
  const auto verdict = [&] { return check_content(content, *version, FilesPolicy::kTruncate); };
  EXPECT_EQ(verdict().kind, FileVerdict::kFine) << verdict().line;
  EXPECT_TRUE(apply(content, FilesPolicy::kTruncate));
  EXPECT_EQ(read("log"), "then");
  replace("of somebody else");
  EXPECT_EQ(verdict().kind, FileVerdict::kRefused);
}

TEST_F(FileContents, ADatabaseIsNotPutBackBesideTheJournalOfALaterTransaction) {
  write("log", "then");
  const FileContent content = saved("rank-0.files/0");
  const Result<Folder> version = Folder::open(folder_, Folder::Whose::kMine);
  ASSERT_TRUE(version);
  const auto verdict = [&](FilesPolicy policy = FilesPolicy::kTruncate) {
    return check_content(content, *version, policy).kind;
  };
  write("log-journal", "\xd9\xd5\x05\xf9\x20\xa1\x63\xd7 and pages");
  EXPECT_EQ(verdict(), FileVerdict::kFine) << "the transaction has changed nothing yet";
  write("log", "within a transaction");
  EXPECT_EQ(verdict(), FileVerdict::kRefused);
  EXPECT_FALSE(apply(content, FilesPolicy::kTruncate));
  EXPECT_EQ(read("log"), "within a transaction");
  EXPECT_EQ(verdict(FilesPolicy::kKeep), FileVerdict::kFine);
  std::filesystem::remove(path("log"));
  EXPECT_EQ(verdict(), FileVerdict::kRefused);
  write("log-journal", std::string(28, '\0') + "pages");  // PRAGMA journal_mode=PERSIST
  EXPECT_EQ(verdict(), FileVerdict::kFine);
}

TEST_F(FileContents, AFileMadeAgainIsForItsOwnerAloneIfItsAccessControlListCannotBePutBack) {
  write("log", "then");
  FileContent content = saved("rank-0.files/0");
  content.identity.mode = S_IFREG | 0664;
  content.attributes.group = getegid();
  const auto mode_made = [&](const std::string& list) {
    content.attributes.acl = list;
    std::filesystem::remove(path("log"));
    EXPECT_TRUE(apply(content, FilesPolicy::kTruncate));
    return identify_file(-1, path("log"))->mode & 0777;
  };
  EXPECT_EQ(mode_made(""), 0664u);
  EXPECT_EQ(mode_made("is no list"), 0600u);
}

TEST_F(FileContents, AnotherFileThatTookTheNameMeanwhileIsNotCut) {
  write("log", "then");
  const FileContent content = saved("");
  write("log", "then and later");
  const Status cut = apply(content);
  EXPECT_TRUE(cut) << cut.error().message;
  EXPECT_EQ(read("log"), "then");
  replace("of somebody else");
  EXPECT_FALSE(apply(content));
  EXPECT_EQ(read("log"), "of somebody else");
}

// Anybody may rename in the file's folder. A descriptor for writing alone cannot be read to compare contents.
TEST_F(FileContents, TheProgramGetsTheFileThatWasRestoredAndNoOtherOfItsName) {
  constexpr int kNumber = 300;
  const Descriptor number(fcntl(open_high("/dev/null", O_RDONLY).fd(), F_DUPFD_CLOEXEC, kNumber));
  ASSERT_EQ(number.fd(), kNumber);
  const Result<Folder> version = Folder::open(folder_, Folder::Whose::kMine);
  ASSERT_TRUE(version);
  for (const bool gone : {true, false})
    for (const bool replaced : {true, false}) {
      for (const char* name : {"log", "former", "rank-0.files"}) std::filesystem::remove_all(path(name));
      write("log", "then");
      const std::vector<FileContent> contents{saved("rank-0.files/0")};
      OpenFile file;
      file.fd = kNumber, file.path = path("log"), file.content = 0, file.flags = O_WRONLY;
      file.identity = contents[0].identity;
      const std::vector<OpenFile> files{file};
      const SavedFiles all{files, contents, *version, FilesPolicy::kTruncate, {}};
      Reopening reopening;
      if (gone) {
        std::filesystem::remove(path("log"));
        reopening.postponed.push_back(&files[0]);
      }
      std::string done;
      const Status applied = apply_files(all, reopening, &done);
      ASSERT_TRUE(applied) << applied.error().message;
      if (replaced) replace("of somebody else");
      if (!gone) {  // as place_files() does, perhaps while the name led elsewhere
        const Descriptor opened(open(path("log").c_str(), O_WRONLY));
        ASSERT_EQ(dup2(opened.fd(), kNumber), kNumber);
      }
      const Status finished = finish_files(all, reopening);
      EXPECT_EQ(static_cast<bool>(finished), !replaced) << gone;
    }
}

// The agent's thread does so where a sandbox forbids it a table of its own; on a busy machine it takes a
// while.
TEST_F(FileContents, AnOwnDescriptorThatIsLowForAMomentTakesNoRoom) {
  Descriptor low(fcntl(open_high("/dev/null", O_RDONLY).fd(), F_DUPFD_CLOEXEC, 40)), ours;
  ASSERT_TRUE(low);
  const int number = low.fd();
  std::jthread agent([&low] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    low.close();
  });
  Reopening reopening;
  EXPECT_TRUE(make_room_for(number, {}, ours, reopening));
}

// A thread that shares the table removes a version, whose directory the C++ library holds open.
TEST_F(FileContents, ADescriptorInHandIsWaitedForBeforeItCountsAsUnknown) {
  ASSERT_NE(mmap(reinterpret_cast<void*>(seam::kState), seam::kStateSize, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE | MAP_NORESERVE, -1, 0),
            MAP_FAILED);
  remember_our_descriptors();
  EXPECT_EQ(unknown_descriptor(false), "");
  const int directory = open(folder_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  EXPECT_NE(unknown_descriptor(false), "");
  std::optional<DescriptorInHand> in_hand(std::in_place);
  std::jthread removal([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    close(directory);
    in_hand.reset();
  });
  EXPECT_EQ(unknown_descriptor(false), "");
}

// In a child: nothing gives a limit back.
TEST_F(FileContents, AnOwnDescriptorThatFindsNoPlaceAboveTheProgramsIsRefused) {
  const pid_t child = fork();
  if (child == 0) {
    const Descriptor low(fcntl(open_high("/dev/null", O_RDONLY).fd(), F_DUPFD_CLOEXEC, 40));
    const rlimit none_above{static_cast<rlim_t>(low.fd() + 1), static_cast<rlim_t>(low.fd() + 1)};
    if (setrlimit(RLIMIT_NOFILE, &none_above) != 0 || (geteuid() == 0 && setuid(65534) != 0)) _exit(2);
    Descriptor ours;
    Reopening reopening;
    _exit(make_room_for(low.fd(), {}, ours, reopening) ? 1 : 0);
  }
  int ended = -1;
  ASSERT_EQ(waitpid(child, &ended, 0), child);
  EXPECT_EQ(ended, 0);
}

// This rank appends to `log`; another rank has the same file by a hard link, `other`, and restores that.
TEST_F(FileContents, AFileThatAnotherRankPutsBackByAnotherNameMustBeTheSameOne) {
  write("log", "then");
  std::filesystem::create_hard_link(path("log"), path("other"));
  const std::vector<FileContent> contents{saved("")};
  const FileIdentity& identity = contents[0].identity;
  OpenFile file;
  file.fd = 5, file.path = path("log"), file.content = 0;
  const std::vector<OpenFile> files{file};
  const Result<Folder> version = Folder::open(folder_, Folder::Whose::kMine);
  ASSERT_TRUE(version);
  const auto verdict = [&](const std::string& name, bool whole = true) {
    const FilesPutBack put_back{{{identity.device, identity.inode}, {whole, {path(name)}}}};
    return check_files({files, contents, *version, FilesPolicy::kTruncate, put_back});
  };
  EXPECT_EQ(verdict("other").kind, FileVerdict::kFine);
  EXPECT_EQ(verdict("other", false).kind, FileVerdict::kFine);  // that one only appends to it, too
  std::filesystem::remove(path("other"));
  write("other", "then");  // both right, and no longer one
  EXPECT_EQ(verdict("other", false).kind, FileVerdict::kRefused);
  replace("of somebody else");
  EXPECT_EQ(verdict("other").kind, FileVerdict::kRefused);
  std::filesystem::remove(path("log"));
  EXPECT_EQ(verdict("other").kind, FileVerdict::kMissing);
  EXPECT_EQ(verdict("log").kind, FileVerdict::kFine);    // the other rank makes it again under this name
  EXPECT_EQ(verdict("./log").kind, FileVerdict::kFine);  // another spelling, as of a folder mounted twice
  std::filesystem::remove(path("other"));
  EXPECT_EQ(verdict("other").kind, FileVerdict::kMissing);
}

// Whether this process, in its own user namespace, can write to its user's file although the mode forbids it.
bool namespaces_help(const std::string& path) {
  const std::string user = std::to_string(geteuid()), group = std::to_string(getegid());
  if (unshare(CLONE_NEWUSER) != 0) return false;
  std::ofstream("/proc/self/setgroups") << "deny";
  std::ofstream("/proc/self/uid_map") << user << " " << user << " 1";
  std::ofstream("/proc/self/gid_map") << group << " " << group << " 1";
  return open(path.c_str(), O_WRONLY) >= 0;
}

// In a child, as a user without capabilities. The mode stays unchanged even while the file is opened: a
// change would show in its ctime.
TEST_F(FileContents, AClosedModeIsNotChangedWhereUsersMayHaveNamespaces) {
  enum { kGood, kNotOpened, kChanged, kNoNamespaces };
  std::filesystem::permissions(folder_, std::filesystem::perms::all);
  const pid_t child = fork();
  if (child == 0) {
    constexpr unsigned kNobody = 65532;  // not 65534, whose processes a test in process_scenarios.py counts
    if (geteuid() == 0 && (setgid(kNobody) != 0 || setuid(kNobody) != 0)) _exit(kNoNamespaces);
    prctl(PR_SET_DUMPABLE, 1);  // otherwise /proc/self would belong to root
    const int made = open(path("closed").c_str(), O_RDWR | O_CREAT, 0400);
    struct stat before {
    }, after{};
    fstat(made, &before);
    usleep(20'000);  // longer than the clock tick of time stamps
    const int opened = open_despite_mode(path("closed"), O_WRONLY, 0400);
    fstat(made, &after);
    if (!namespaces_help(path("closed"))) _exit(kNoNamespaces);
    if (opened < 0) _exit(kNotOpened);
    _exit(before.st_ctim.tv_nsec == after.st_ctim.tv_nsec ? kGood : kChanged);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  if (WIFEXITED(status) && WEXITSTATUS(status) == kNoNamespaces) GTEST_SKIP() << "no user namespaces here";
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == kGood) << status;
}

// /proc is a mounted file system on every machine: it stands for a node's own disk that other nodes have as
// well.
TEST(Directories, OnlyAFileSystemMountedWhereNoneWasRefusesTheCurrentDirectory) {
  ASSERT_EQ(is_mount_root("/proc"), true);
  ASSERT_EQ(is_mount_root("/proc/self"), false);
  FileIdentity then = *identify_file(-1, "/proc");
  const auto verdict = [&](std::optional<bool> was, FilesPolicy policy = FilesPolicy::kTruncate) {
    return check_current_directory("/proc", then, was, policy);
  };
  EXPECT_EQ(verdict(false).kind, FileVerdict::kFine);
  then.inode++;  // that of another directory
  EXPECT_EQ(verdict(false).kind, FileVerdict::kRefused);
  EXPECT_NE(verdict(false).line.find("another file system is mounted there"), std::string::npos);
  EXPECT_EQ(verdict(true).kind, FileVerdict::kFine);
  EXPECT_EQ(verdict(std::nullopt).kind, FileVerdict::kFine);  // from an image without this field
  EXPECT_EQ(verdict(true, FilesPolicy::kFail).kind, FileVerdict::kRefused);
  EXPECT_EQ(verdict(false, FilesPolicy::kKeep).kind, FileVerdict::kFine);
}

}  // namespace
}  // namespace cropdl::files
