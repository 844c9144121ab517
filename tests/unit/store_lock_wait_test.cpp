// links: cropdl_session
// Opening waits for a store whose former job is still ending, but not for one that is in use.
#include <fcntl.h>

#include <thread>

#include "base/host.h"
#include "restart/session/version_store.h"
#include "tests/unit/store_fixture.h"

namespace cropdl::session {
namespace {

class StoreLockWait : public restart::StoreFixture {
 protected:
  // Another process holds the store's lock, which names `pid`, for that long.
  void lock_for(double seconds, pid_t pid) {
    ASSERT_TRUE(restart::Store::open_or_create(path("s"), identity_));
    int ready[2];
    ASSERT_EQ(pipe(ready), 0);
    holder_ = fork();
    if (holder_ == 0) {
      const int fd = open(path("s/lock").c_str(), O_RDWR | O_TRUNC);
      const std::string text = std::to_string(pid != 0 ? pid : getpid()) + " " + host_name() + "\n";
      struct flock lock {};
      lock.l_type = F_WRLCK;
      if (::write(fd, text.data(), text.size()) < 0 || fcntl(fd, F_SETLK, &lock) != 0) _exit(1);
      if (::write(ready[1], "", 1) != 1) _exit(1);
      usleep(static_cast<useconds_t>(seconds * 1e6));
      _exit(0);
    }
    char byte;
    ASSERT_EQ(::read(ready[0], &byte, 1), 1);
    close(ready[0]), close(ready[1]);
    wait_.say = [this](const std::string& line) { lines_.push_back(line); };
  }
  ~StoreLockWait() override {
    if (holder_ > 0) kill(holder_, SIGKILL), waitpid(holder_, nullptr, 0);
    if (zombie_ > 0) waitpid(zombie_, nullptr, 0);
  }
  pid_t zombie() {
    zombie_ = fork();
    if (zombie_ == 0) _exit(0);
    siginfo_t info;
    waitid(P_PID, static_cast<id_t>(zombie_), &info, WEXITED | WNOWAIT);
    return zombie_;
  }

  static constexpr double kLong = 600;  // seconds; until the test kills the holder
  restart::StoreIdentity identity_{"job", "/bin/true", {}, 1};
  LockWait wait_;
  std::vector<std::string> lines_;
  pid_t holder_ = 0, zombie_ = 0;
};

TEST_F(StoreLockWait, AKilledJobThatIsStillEndingIsWaitedForWithALine) {
  lock_for(kLong, zombie());
  wait_.say = [this](const std::string& line) {
    lines_.push_back(line);
    kill(holder_, SIGKILL);
  };
  wait_.grace_seconds = 0.05;
  wait_.say_after_seconds = 0.2;
  const auto store = open_store(path("s"), identity_, wait_);
  EXPECT_TRUE(store) << store.error().message;
  EXPECT_EQ(lines_,
            std::vector<std::string>{"store " + path("s") + ": waiting for the former job's process " +
                                     std::to_string(zombie_) + ", which has been killed, to end"});
}

TEST_F(StoreLockWait, AKilledJobThatEndsDuringTheCheckIsNoRefusal) {
  wait_.grace_seconds = 0;
  zombie();
  for (int i = 0; i < 100; ++i) {
    lock_for(i * 5e-6, zombie_);
    const auto store = open_store(path("s"), identity_, wait_);
    ASSERT_TRUE(store) << "held for " << i * 5 << " us: " << store.error().message;
    waitpid(holder_, nullptr, 0);
  }
  holder_ = 0;
}

TEST_F(StoreLockWait, TheWaitHasABound) {
  lock_for(kLong, zombie());
  wait_.ending_seconds = 0.3;
  const auto store = open_store(path("s"), identity_, wait_);
  ASSERT_FALSE(store);
  EXPECT_EQ(store.error().message,
            "store " + path("s") + ": the former job's process " + std::to_string(zombie_) +
                " has been killed, but has not ended within 0 s; try again when it is gone");
}

TEST_F(StoreLockWait, ALiveJobIsRefusedAfterAShortGrace) {
  lock_for(kLong, 0);
  wait_.grace_seconds = 0.2;
  const auto store = open_store(path("s"), identity_, wait_);
  ASSERT_FALSE(store);
  EXPECT_EQ(store.error().message, "store " + path("s") + ": is used by a running job (pid " +
                                       std::to_string(holder_) + " on " + host_name() + ")");
  EXPECT_TRUE(lines_.empty());
}

TEST_F(StoreLockWait, AJobThatEndsWithinTheGraceIsNoRefusal) {
  lock_for(0.3, 0);
  wait_.grace_seconds = 60;
  const auto store = open_store(path("s"), identity_, wait_);
  EXPECT_TRUE(store) << store.error().message;
  EXPECT_TRUE(lines_.empty());
}

}  // namespace
}  // namespace cropdl::session
