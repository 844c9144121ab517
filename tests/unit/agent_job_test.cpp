// links: cropdl_coord
// Agents, hub and command together over real sockets. Ranks are threads of this process, or separate
// processes if one has to die.
#include <gtest/gtest.h>

#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <csignal>
#include <cstddef>
#include <fstream>
#include <regex>

#include "base/file.h"
#include "base/host.h"
#include "base/time.h"
#include "coord/agent.h"
#include "coord/channel.h"
#include "coord/client.h"
#include "coord/event.h"
#include "coord/hub.h"
#include "coord/job_file.h"
#include "coord/transport.h"
#include "tests/unit/agent_test_program.h"
#include "tests/unit/soon.h"

namespace cropdl::coord {
namespace {

using Clock = std::chrono::steady_clock;
double since(Clock::time_point t) { return std::chrono::duration<double>(Clock::now() - t).count(); }

class AgentJob : public ::testing::Test {
 protected:
  AgentConfig config(uint32_t rank, uint32_t ranks) {
    AgentConfig c;
    c.directory = dir_.path;
    c.rank = rank;
    c.ranks = ranks;
    c.run_id = "run-1";
    c.limits.attempts = 1;
    c.limits.join_bound = 60'000'000;
    c.report = [this](const std::string& line) {
      const std::lock_guard lock(lines_mutex_);
      lines_.push_back(line);
    };
    return c;
  }
  // A job of one rank runs into its time limit, whose cut begins 0.2 s after the start. It is tried anew,
  // with more time, on a machine that is too busy for the first limits, unless the cut was `begun`.
  template <class Prepare, class Begun>
  void reach_the_time_limit(Prepare prepare, Begun begun) {
    for (const double cost : {0.05, 2.0, 14.0}) {
      agents_.clear();
      lines_.clear();
      fakes_ = std::vector<FakeRank>(1);
      prepare(fakes_[0]);
      AgentConfig c = config(0, 1);
      c.time_limit = 1.2 + 2 * cost;
      c.former_cost = cost;
      c.limits.attempt_bound = 60'000'000;
      add(c, fakes_[0]);
      ASSERT_TRUE(soon([&] { return !lines().empty(); }));
      if (begun()) break;
    }
  }
  static Schedule every(double seconds) { return {Schedule::Kind::kEvery, seconds}; }
  Agent& add(const AgentConfig& c, LocalRank& rank) {
    Result<std::unique_ptr<Agent>> a = Agent::start(c, rank, c.rank == 0 ? &sink_ : nullptr);
    EXPECT_TRUE(a) << a.error().message;
    agents_.push_back(std::move(*a));
    return *agents_.back();
  }
  void start(uint32_t ranks) {
    fakes_ = std::vector<FakeRank>(ranks);
    for (uint32_t r = 0; r < ranks; ++r) add(config(r, ranks), fakes_[r]);
  }
  // A command hears soon, and again soon, for what it waits.
  void start_with_early_lines(uint32_t ranks) {
    fakes_ = std::vector<FakeRank>(ranks);
    for (uint32_t r = 0; r < ranks; ++r) {
      AgentConfig c = config(r, ranks);
      c.limits.say_after = 20'000;
      c.limits.say_again_after = 10'000;
      add(c, fakes_[r]);
    }
  }
  std::vector<std::string> lines() {
    const std::lock_guard lock(lines_mutex_);
    return lines_;
  }
  std::string checkpoint_error(const std::function<void(const std::string&)>& waiting = {}) {
    const auto reply = request_checkpoint(dir_.path, 60, false, waiting);
    return reply ? "(published)" : reply.error().message;
  }
  // As checkpoint_error(), where versions also come by themselves.
  std::string checkpoint_error_among_others() {
    std::string line;
    EXPECT_TRUE(soon([&] {
      line = checkpoint_error();
      return line != "a checkpoint of this job is already being taken";
    }));
    return line;
  }
  // Returns when the hub has handled all that happened at the agents before the call. The turn in which an
  // agent sends the first exchange may have begun earlier.
  void finish_turns() {
    for (int i = 0; i < 2; ++i) {
      std::vector<std::jthread> threads;
      for (const auto& agent : agents_) threads.emplace_back([&] { EXPECT_TRUE(agent->exchange("")); });
    }
  }
  uint32_t joined() {
    const auto s = job_status(dir_.path);
    return s ? s->joined : 0;
  }

  // A rank in its own process that behaves like FakeRank until it is killed. Threads do not survive fork(),
  // so this must come before this process has agents.
  pid_t fork_rank(uint32_t rank, uint32_t ranks, bool inside_collective) {
    const pid_t pid = fork();
    if (pid != 0) return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);  // also if the test fails before it kills the child
    FakeRank fake;
    fake.stands.inside.assign(inside_collective, 1);
    FakeSink sink;
    Result<std::unique_ptr<Agent>> a = Agent::start(config(rank, ranks), fake, rank == 0 ? &sink : nullptr);
    if (!a) _exit(1);
    for (;;) pause();
  }
  void kill_rank(pid_t pid) {
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
  }

  void set_write_failure(uint32_t rank, const std::string& failure) {
    const std::lock_guard lock(fakes_[rank].mutex);
    fakes_[rank].write_failure = failure;
  }

  // `cropdl checkpoint`, running concurrently with the test.
  class Command {
   public:
    explicit Command(AgentJob& job)
        : thread_([this, &job] {
            line_ = job.checkpoint_error([this](const std::string&) { waits_ = true; });
            over_ = true;
          }) {}
    bool waits() const { return waits_; }  // it was accepted, and has said for what it waits
    bool over() const { return over_; }
    const std::string& line() {
      if (thread_.joinable()) thread_.join();
      return line_;
    }

   private:
    std::string line_;
    std::atomic<bool> waits_{false}, over_{false};
    std::jthread thread_;  // last, so that it is joined before the other members are destroyed
  };

  TemporaryDirectory dir_;
  FakeSink sink_;
  std::mutex lines_mutex_;
  std::vector<std::string> lines_;
  std::vector<FakeRank> fakes_;
  std::vector<std::unique_ptr<Agent>> agents_;  // last, so that they end before the members that they use
};

double cpu_seconds() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

// What the core's handler does.
void say_sigterm(const Agent& agent) {
  const uint64_t one = 1;
  EXPECT_EQ(write(agent.terminated_descriptor(), &one, sizeof one), static_cast<ssize_t>(sizeof one));
}

TEST_F(AgentJob, AConnectionWithoutFreeDescriptorsIsServedLater) {
  const std::string go = dir_.path + "/go";
  const pid_t asks = fork();
  if (asks == 0) {
    while (access(go.c_str(), F_OK) != 0) usleep(1000);
    _exit(request_checkpoint(dir_.path, 60, false) ? 0 : 1);
  }
  start(1);
  constexpr rlim_t kFew = 16;  // at least as many as poll(2) gets
  std::vector<Descriptor> all;
  do {
    all.emplace_back(open("/dev/null", O_RDONLY | O_CLOEXEC));
  } while (all.back() && all.back().fd() < static_cast<int>(kFew));
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  const rlimit few{kFew, limit.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  mkdir(go.c_str(), 0700);
  const bool said = soon([&] { return !lines().empty(); });
  const double before = cpu_seconds();
  sleep(1);
  const double used = cpu_seconds() - before;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  EXPECT_TRUE(said);
  EXPECT_LT(used, 0.3) << "the agent is busy";
  ASSERT_EQ(lines().size(), 1u) << "once, however often it tries";
  EXPECT_NE(lines()[0].find("raise ulimit -n"), std::string::npos) << lines()[0];
  int status = -1;
  EXPECT_EQ(waitpid(asks, &status, 0), asks);
  EXPECT_EQ(status, 0);
}

// Whether rank 0, where unshare(2) is forbidden, refuses a command for which it has only a low number.
int refuses_for_lack_of_high_descriptors(Agent& zero, const std::string& directory) {
  const auto refused = [&] {
    while (fcntl(zero.request_descriptor(), F_DUPFD, first_high_descriptor()) >= 0) continue;
    const auto status = job_status(directory);
    return !status && status.error().message.find(
                          "rank 0 has no descriptor left for it above the program's; "
                          "raise ulimit -n to 16386") != std::string::npos;
  };
  return job_status(directory) && soon(refused) ? 0 : 1;
}

TEST_F(AgentJob, WithoutATableOfItsOwnRankZeroKeepsNoNumberOfTheProgram) {
  const pid_t child = fork();
  if (child == 0) {
    sock_filter code[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
                          BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_unshare, 0, 1),
                          BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
                          BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    const sock_fprog forbid{4, code};
    rlimit limit{};
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = 1024;
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &forbid) != 0)
      _exit(2);
    fakes_ = std::vector<FakeRank>(1);
    AgentConfig c = config(0, 1);
    c.own_descriptors = true;
    _exit(refuses_for_lack_of_high_descriptors(add(c, fakes_[0]), dir_.path));
  }
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST_F(AgentJob, RanksHearOfEachOtherWithFewerDescriptorsAllowedThanTheyPoll) {
  start(3);
  ASSERT_TRUE(soon([&] { return joined() == 3; }));
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  const rlimit few{2, limit.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  const double before = cpu_seconds();
  sleep(1);
  const double used = cpu_seconds() - before;
  signal_event(agents_[0]->request_descriptor());
  const bool taken = soon([&] { return sink_.versions == 1; });
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  EXPECT_TRUE(taken);
  EXPECT_LT(used, 0.3) << "an agent is busy";
}

TEST_F(AgentJob, ACheckpointThatIsAskedForReturnsItsVersion) {
  start(4);
  const auto begin = Clock::now();
  const auto reply = request_checkpoint(dir_.path, 60, false);
  ASSERT_TRUE(reply) << reply.error().message;
  EXPECT_EQ(reply->version, 1u);
  EXPECT_EQ(reply->bytes, 4000u);
  EXPECT_GT(reply->stall_seconds, 0);
  EXPECT_LT(reply->stall_seconds, since(begin));
  EXPECT_EQ(request_checkpoint(dir_.path, 60, false)->version, 2u);
  for (FakeRank& f : fakes_) EXPECT_TRUE(soon([&] { return f.resumes == 2; }));
}

TEST_F(AgentJob, RanksThatRunCollectivesAtFullSpeedAreCutAtEqualCounts) {
  constexpr uint32_t kRanks = 4;
  std::barrier everyone(kRanks);
  std::vector<std::unique_ptr<RunningRank>> ranks;
  for (uint32_t r = 0; r < kRanks; ++r) {
    ranks.push_back(std::make_unique<RunningRank>(&everyone, r));
    add(config(r, kRanks), *ranks.back());
  }
  for (auto& r : ranks) r->run(20'000);
  uint64_t last = 0;
  for (int i = 0; i < 10; ++i) {
    const auto reply = request_checkpoint(dir_.path, 60, false);
    ASSERT_TRUE(reply) << reply.error().message;
    const std::vector<ImageSummary> images = sink_.last_images();
    for (const ImageSummary& image : images) EXPECT_EQ(image.checksum, images[0].checksum);
    EXPECT_EQ(images[2].file, "rank-2");
    EXPECT_GE(images[0].checksum, last);
    last = images[0].checksum;
  }
  for (auto& r : ranks) r->join();  // every held or stopped program continues to its end
  agents_.clear();
}

TEST_F(AgentJob, ASignalHandlerCanAskForOne) {
  start(2);
  ASSERT_TRUE(soon([&] { return joined() == 2; }));
  // A launcher forwards the signal to all ranks, but it is one request.
  EXPECT_EQ(agents_[1]->request_descriptor(), -1);
  signal_event(agents_[0]->request_descriptor());
  EXPECT_TRUE(soon([&] { return sink_.versions == 1; }));
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_EQ(sink_.versions, 1u);
}

TEST_F(AgentJob, ASignalThatComesWhileARankIsStartingIsServedLater) {
  start(2);
  ASSERT_TRUE(soon([&] { return joined() == 2; }));
  {
    const std::lock_guard lock(fakes_[1].mutex);
    fakes_[1].stands.starting = true;
    fakes_[1].stands.refusal = "only just being started";
  }
  signal_event(agents_[0]->request_descriptor());
  ASSERT_TRUE(soon([&] { return fakes_[1].holds >= 2; }));
  {
    const std::lock_guard lock(fakes_[1].mutex);
    fakes_[1].stands = {};
  }
  EXPECT_TRUE(soon([&] { return sink_.versions == 1; }));
  EXPECT_EQ(lines(), std::vector<std::string>());
}

TEST_F(AgentJob, ACommandThatDoesNotReadKeepsNoRankStopped) {
  fakes_ = std::vector<FakeRank>(1);
  std::atomic<bool> reads{false};
  AgentConfig c = config(0, 1);
  c.schedule.kind = Schedule::Kind::kAutomatic;
  c.schedule.max_overhead = 1;
  c.shortest_interval = 0.05;
  c.report = [&](const std::string&) {
    while (!reads) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  };
  add(c, fakes_[0]);
  EXPECT_TRUE(soon([&] { return fakes_[0].resumes == 1; }));
  reads = true;
  agents_[0]->stop();
}

TEST_F(AgentJob, TheIntervalTakesVersions) {
  fakes_ = std::vector<FakeRank>(1);
  AgentConfig c = config(0, 1);
  c.schedule = every(0.05);
  add(c, fakes_[0]);
  EXPECT_TRUE(soon([&] { return sink_.versions >= 3; }));
}

TEST_F(AgentJob, AnAutomaticIntervalTakesVersionsAndPrintsItself) {
  fakes_ = std::vector<FakeRank>(1);
  AgentConfig c = config(0, 1);
  c.schedule.kind = Schedule::Kind::kAutomatic;
  c.schedule.max_overhead = 1;
  c.shortest_interval = 0.05;
  fakes_[0].memory = 1'000'000'000;  // the first one is due after 2 s, by a fast disk after 0.3 s
  add(c, fakes_[0]);
  ASSERT_TRUE(soon([&] { return sink_.versions >= 3; }));
  ASSERT_FALSE(lines().empty());
  EXPECT_NE(lines()[0].find("a version every "), std::string::npos) << lines()[0];
  EXPECT_EQ(sink_.measured, 0u) << "the disk, which could bring the first one forward by seconds only";
}

TEST_F(AgentJob, TheFirstVersionOfALargeProgramComesWhenItIsWorthIt) {
  fakes_ = std::vector<FakeRank>(1);
  AgentConfig c = config(0, 1);
  c.schedule.kind = Schedule::Kind::kAutomatic;
  c.schedule.max_overhead = 1;
  c.shortest_interval = 0.01;
  fakes_[0].memory = 100'000'000;  // an estimated quarter of a second
  const auto begin = Clock::now();
  add(c, fakes_[0]);
  ASSERT_TRUE(soon([&] { return sink_.versions >= 1; }));
  EXPECT_GE(since(begin), 0.24);
}

// By the assumed speed the first version is due after 8 s, and after 1 s on the fastest disk.
AgentConfig large_program(AgentConfig c, FakeRank& fake) {
  c.schedule.kind = Schedule::Kind::kAutomatic;
  c.schedule.max_overhead = 1;
  c.shortest_interval = 0.01;
  c.worth_measuring = 0.5;
  fake.memory = 4'000'000'000;
  return c;
}

TEST_F(AgentJob, AFastDiskIsMeasuredAndBringsALargeProgramsFirstVersionForward) {
  fakes_ = std::vector<FakeRank>(1);
  // By the assumed speed it would be due after hours then.
  sink_.when_measured = [this] { fakes_[0].memory = 4'000'000'000'000; };
  add(large_program(config(0, 1), fakes_[0]), fakes_[0]);
  ASSERT_TRUE(soon([&] { return sink_.versions >= 1; }));
  ASSERT_EQ(sink_.measured, 1u);
  ASSERT_FALSE(lines().empty());
  EXPECT_NE(lines()[0].find("the disk takes 1.0 PB a second: a version every "), std::string::npos)
      << lines()[0];
}

TEST_F(AgentJob, ASlowDiskChangesNothing) {
  fakes_ = std::vector<FakeRank>(1);
  sink_.disk_speed = 1e5;  // so a version would cost hours
  const AgentConfig c = large_program(config(0, 1), fakes_[0]);
  fakes_[0].memory = 1'000'000'000;  // due after 2 s
  add(c, fakes_[0]);
  EXPECT_TRUE(soon([&] { return sink_.versions >= 1; }));
  if (sink_.measured == 0)
    GTEST_SKIP() << "too slow to tell: the version was due before the disk was measured";
  EXPECT_EQ(sink_.measured, 1u);
}

TEST_F(AgentJob, ADiskIsNotMeasuredWhileAVersionNeedsItOrTheJobEnds) {
  for (const bool ends : {false, true}) {
    agents_.clear();
    fakes_ = std::vector<FakeRank>(1);
    sink_.slow_disk = true;
    sink_.measured = sink_.stopped = 0;
    add(large_program(config(0, 1), fakes_[0]), fakes_[0]);
    ASSERT_TRUE(soon([&] { return sink_.measured == 1; }));
    if (ends)
      agents_[0]->stop();
    else
      EXPECT_EQ(checkpoint_error_among_others(), "(published)");
    EXPECT_TRUE(soon([&] { return sink_.stopped == 1; }));
  }
}

TEST_F(AgentJob, ADiskIsNotMeasuredWhileAVersionIsWritten) {
  fakes_ = std::vector<FakeRank>(1);
  fakes_[0].slow_write = true;
  add(large_program(config(0, 1), fakes_[0]), fakes_[0]);  // the disk would be measured after 1 s
  Command command(*this);
  ASSERT_TRUE(soon([&] { return job_status(dir_.path)->phase == "writing" || sink_.measured > 0; }));
  const uint64_t before = sink_.measured;  // 0, unless the machine is busy
  std::this_thread::sleep_for(std::chrono::milliseconds(1500));
  EXPECT_EQ(sink_.measured, before);
  fakes_[0].slow_write = false;
  EXPECT_TRUE(soon([&] { return command.over(); }));
}

TEST_F(AgentJob, ProcessorTimeOfTheAgentInAVersionIsPartOfItsCostAlone) {
  fakes_ = std::vector<FakeRank>(1);
  AgentConfig c = config(0, 1);
  c.metrics = dir_.path + "/metrics";
  add(c, fakes_[0]);
  ASSERT_TRUE(soon([&] { return joined() == 1; }));
  fakes_[0].busy_seconds = 1;
  ASSERT_EQ(checkpoint_error(), "(published)");
  std::string text;
  const auto value = [&text](const std::string& name) {
    const size_t at = text.find("\ncropdl_" + name + "{");
    return at == std::string::npos ? 0 : std::stod(text.substr(text.find("} ", at) + 2));
  };
  ASSERT_TRUE(soon([&] {
    text = kernel_text(c.metrics);
    return value("versions_total") == 1;
  }));
  EXPECT_GT(value("held_seconds_total"), 0.9);
  EXPECT_GT(value("beside_seconds_total"), 0.012);
  EXPECT_LT(value("beside_seconds_total"), 0.5) << text;
}

TEST_F(AgentJob, ARestartMeasuresNoDisk) {
  fakes_ = std::vector<FakeRank>(1);
  AgentConfig c = large_program(config(0, 1), fakes_[0]);
  c.former_cost = c.plausible_cost = 3;  // the disk would be measured after 1 s
  add(c, fakes_[0]);
  ASSERT_TRUE(soon([&] { return sink_.versions >= 1; }));
  EXPECT_EQ(sink_.measured, 0u);
}

TEST_F(AgentJob, ARestartExpectsTheCostOfItsVersion) {
  fakes_ = std::vector<FakeRank>(1);
  AgentConfig c = config(0, 1);
  c.schedule.kind = Schedule::Kind::kAutomatic;
  c.schedule.max_overhead = 1;
  c.shortest_interval = 0.01;
  c.former_cost = c.plausible_cost = 0.3;
  fakes_[0].memory = 100'000'000'000;  // so none is requested
  const auto begin = Clock::now();
  add(c, fakes_[0]);
  ASSERT_TRUE(soon([&] { return sink_.versions >= 1; }));
  EXPECT_GE(since(begin), 0.29);
}

TEST_F(AgentJob, AProgramThatRefusesIsAskedEverMoreRarely) {
  fakes_ = std::vector<FakeRank>(1);
  fakes_[0].stands.refusal = "a pipe is open";
  AgentConfig c = config(0, 1);
  c.schedule.kind = Schedule::Kind::kAutomatic;
  c.schedule.max_overhead = 1;
  c.shortest_interval = 0.01;
  add(c, fakes_[0]);
  EXPECT_TRUE(soon([&] { return fakes_[0].holds >= 3; }));
  std::this_thread::sleep_for(std::chrono::milliseconds(1000));
  EXPECT_LE(fakes_[0].holds, 9);  // after 20, 40, ... ms
  EXPECT_EQ(lines(), std::vector<std::string>{"checkpoint refused: rank 0: a pipe is open"});
  {
    const std::lock_guard lock(fakes_[0].mutex);
    fakes_[0].stands = {};
  }
  EXPECT_EQ(checkpoint_error_among_others(), "(published)");  // which ends the pause
  EXPECT_TRUE(soon([&] { return sink_.versions >= 3; }));
}

TEST_F(AgentJob, ARefusalAtAnIntervalIsSaidOnceNotEveryTime) {
  fakes_ = std::vector<FakeRank>(1);
  fakes_[0].stands.refusal = "a pipe is open";
  AgentConfig c = config(0, 1);
  c.schedule = every(0.02);
  add(c, fakes_[0]);
  EXPECT_TRUE(soon([&] { return fakes_[0].holds >= 4; }));
  EXPECT_EQ(lines(), std::vector<std::string>{"checkpoint refused: rank 0: a pipe is open"});
}

TEST_F(AgentJob, ARefusalReachesTheCommandWithItsReason) {
  start(3);
  {
    const std::lock_guard lock(fakes_[2].mutex);
    fakes_[2].stands.refusal = "MPI_File_open: a file is open";
  }
  EXPECT_EQ(checkpoint_error(), "checkpoint refused: rank 2: MPI_File_open: a file is open");
}

TEST_F(AgentJob, WithoutAJobTheCommandFailsAtOnce) {
  EXPECT_EQ(checkpoint_error(), "no job is running on " + dir_.path);
  start(1);
  ASSERT_EQ(checkpoint_error(), "(published)");
  agents_.clear();
  EXPECT_EQ(checkpoint_error(), "no job is running on " + dir_.path);
  EXPECT_FALSE(job_status(dir_.path));
}

// Another user can write any address and token into a DIR/job: what root sends to it must not reach a process
// that trusts root.
TEST_F(AgentJob, RootAsksOnlyProcessesOfTheJobFilesOwner) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can read another user's file";
  start(1);
  ASSERT_EQ(checkpoint_error(), "(published)");
  ASSERT_EQ(chown((dir_.path + "/job").c_str(), 12345, 12345), 0);
  EXPECT_EQ(checkpoint_error(), dir_.path +
                                    "/job belongs to user id 12345, and the process at its address "
                                    "to user id 0");
  EXPECT_EQ(sink_.versions, 1u);
}

TEST_F(AgentJob, ManyConnectionsAreAcceptedInTurns) {
  const auto hub = Hub::open(
      config(0, 1), &sink_, [] { return uint64_t{0}; }, monotonic_us());
  ASSERT_TRUE(hub) << hub.error().message;
  bool missing, refused;
  const Result<JobFile> job = read_job_file(dir_.path, &missing);
  ASSERT_TRUE(job) << job.error().message;
  constexpr size_t kMany = 200;
  std::vector<std::unique_ptr<Stream>> streams;
  while (streams.size() < kMany) {
    auto stream = connect_to(job->address, &refused);
    ASSERT_TRUE(stream) << stream.error().message;
    streams.push_back(std::move(*stream));
  }
  std::vector<pollfd> fds, then;
  (*hub)->add_to_poll(&fds);
  ASSERT_EQ(fds[0].events, POLLIN);  // the listener
  const size_t before = fds.size();
  fds[0].revents = POLLIN;
  (*hub)->handle(fds, 0, monotonic_us());
  (*hub)->add_to_poll(&then);
  EXPECT_GT(then.size(), before);
  EXPECT_LT((then.size() - before) / 2, kMany);  // each connection has two
}

TEST_F(AgentJob, AKilledJobIsRecognisedAtOnceAlsoWhileAChildOfItLives) {
  const pid_t pid = fork();
  if (pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    FakeRank fake;
    Result<std::unique_ptr<Agent>> a = Agent::start(config(0, 1), fake, &sink_);
    if (!a) _exit(1);
    const pid_t child = fork();  // it holds the listening socket
    if (child == 0) {
      sleep(100);  // longer than the command would wait for an answer
      _exit(0);
    }
    std::ofstream(dir_.path + "/child.new") << child;
    std::filesystem::rename(dir_.path + "/child.new", dir_.path + "/child");
    for (;;) pause();
  }
  ASSERT_TRUE(soon([&] { return std::filesystem::exists(dir_.path + "/child"); }));
  ASSERT_TRUE(job_status(dir_.path));
  kill_rank(pid);
  EXPECT_EQ(checkpoint_error(), "no job is running on " + dir_.path);
  pid_t child = 0;
  std::ifstream(dir_.path + "/child") >> child;
  if (child > 0) kill(child, SIGKILL);
}

TEST_F(AgentJob, TheCommandIsToldRepeatedlyWhatItWaitsFor) {
  start_with_early_lines(2);
  ASSERT_TRUE(soon([&] { return joined() == 2; }));
  fakes_[1].slow_write = true;
  int told = 0;
  const std::regex expected("waiting for \\d+ s: rank 1 is writing its image");
  const auto reply = request_checkpoint(dir_.path, 60, false, [&](const std::string& line) {
    told += std::regex_match(line, expected);  // before that, other ranks may be late as well
    if (told == 3) fakes_[1].slow_write = false;
  });
  ASSERT_TRUE(reply) << reply.error().message;
  EXPECT_GE(told, 3);

  fakes_[1].slow_write = true;  // nobody waits for this rank
  signal_event(agents_[0]->request_descriptor());
  ASSERT_TRUE(soon([&] { return job_status(dir_.path)->phase == "writing"; }));
  std::this_thread::sleep_for(std::chrono::milliseconds(60));
  fakes_[1].slow_write = false;
  ASSERT_TRUE(soon([&] { return sink_.versions == 2; }));
  EXPECT_EQ(lines(), std::vector<std::string>());
}

TEST_F(AgentJob, ARequestDuringACheckpointIsRefusedAtOnce) {
  start(2);
  fakes_[1].slow_write = true;
  std::jthread first([&] { EXPECT_EQ(checkpoint_error(), "(published)"); });
  ASSERT_TRUE(soon([&] {
    const auto s = job_status(dir_.path);
    return s && s->phase == "writing";
  }));
  EXPECT_EQ(checkpoint_error(), "a checkpoint of this job is already being taken");
  sink_.slow_publish = true;
  fakes_[1].slow_write = false;
  ASSERT_TRUE(soon([&] {
    const auto s = job_status(dir_.path);
    return s && s->phase == "publishing";
  }));
  EXPECT_EQ(checkpoint_error(), "a checkpoint of this job is already being taken");
  sink_.slow_publish = false;
  first.join();
}

TEST_F(AgentJob, AStoppedJobIsNotWaitedForLongerThanAsked) {
  const pid_t pid = fork_rank(0, 1, false);
  ASSERT_TRUE(soon([&] { return joined() == 1; }));
  kill(pid, SIGSTOP);
  waitpid(pid, nullptr, WUNTRACED);  // until then it may still answer
  const auto reply = request_checkpoint(dir_.path, 0.3, false);
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().message, "the job on " + dir_.path + " (pid " + std::to_string(pid) +
                                       ") does not answer; if it is stopped (State T in /proc/" +
                                       std::to_string(pid) + "/status), continue it: kill -CONT " +
                                       std::to_string(pid));
  kill_rank(pid);
}

TEST_F(AgentJob, AJobThatAnswersLateButIsNotStoppedIsWaitedForWithALine) {
  struct BusyRank : FakeRank {
    bool take_sigterm() override {
      while (busy) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      return false;
    }
    std::atomic<bool> busy{true};
  } rank;
  add(config(0, 1), rank);
  std::vector<std::string> said;
  const auto reply = request_checkpoint(dir_.path, 0.1, false, [&](const std::string& line) {
    said.push_back(line);
    rank.busy = false;
  });
  rank.busy = false;
  agents_.clear();
  ASSERT_TRUE(reply) << reply.error().message;
  ASSERT_FALSE(said.empty());
  const std::regex expected("waiting for \\d+ s: the job on " + dir_.path +
                            " \\(pid \\d+\\) does not answer");
  EXPECT_TRUE(std::regex_match(said[0], expected)) << said[0];
}

TEST_F(AgentJob, ARankThatDiesMidAttemptEndsItAndTheOthersGoOn) {
  const pid_t pid = fork_rank(1, 2, true);
  fakes_ = std::vector<FakeRank>(1);
  add(config(0, 2), fakes_[0]);
  std::jthread command([&] {
    const std::string line = checkpoint_error();
    EXPECT_EQ(
        line.rfind("checkpoint refused: rank 1 is gone: its process (pid " + std::to_string(pid) + ") died",
                   0),
        0u)
        << line;
  });
  ASSERT_TRUE(soon([&] { return fakes_[0].holds == 1; }));
  kill_rank(pid);
  command.join();
  EXPECT_TRUE(soon([&] { return fakes_[0].resumes == 1; }));
  EXPECT_NE(checkpoint_error().find("rank 1 is gone"), std::string::npos);
}

TEST_F(AgentJob, IfRankZeroDiesHeldRanksContinueAndTheCommandGetsAnError) {
  const pid_t pid = fork_rank(0, 2, true);
  fakes_ = std::vector<FakeRank>(1);
  add(config(1, 2), fakes_[0]);
  ASSERT_TRUE(soon([&] { return joined() == 2; }));
  std::jthread command([&] {
    EXPECT_EQ(checkpoint_error(), "the job on " + dir_.path + " ended before the checkpoint was complete");
  });
  ASSERT_TRUE(soon([&] { return fakes_[0].holds == 1; }));
  kill_rank(pid);
  command.join();
  EXPECT_TRUE(soon([&] { return fakes_[0].resumes == 1; }));
}

TEST_F(AgentJob, IfRankZeroEndsFirstOneRemainingRankReportsIt) {
  fakes_ = std::vector<FakeRank>(3);
  for (uint32_t r = 0; r < 3; ++r) {
    AgentConfig c = config(r, 3);
    c.outlives_seconds = 0.2;
    add(c, fakes_[r]);
  }
  ASSERT_TRUE(soon([&] { return joined() == 3; }));
  agents_[0]->stop();
  ASSERT_TRUE(soon([&] { return !lines().empty(); }));
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  ASSERT_EQ(lines().size(), 1u) << "not one for each";
  std::smatch who;
  const std::string line = lines()[0];
  ASSERT_TRUE(std::regex_match(
      line, who, std::regex("no more checkpoints: rank 0 has ended; rank ([12]) goes on without it")))
      << line;
  EXPECT_EQ(checkpoint_error(), "rank 0 of the job on " + dir_.path + " has ended; rank " + who[1].str() +
                                    " (pid " + std::to_string(getpid()) +
                                    ") goes on without it, and no checkpoint of it can be taken any more");
  agents_.clear();
  EXPECT_EQ(checkpoint_error(), "no job is running on " + dir_.path);
}

TEST_F(AgentJob, ARankThatEndedIsNamed) {
  start(2);
  ASSERT_EQ(checkpoint_error(), "(published)");
  agents_[1]->stop();
  EXPECT_TRUE(soon([&] { return checkpoint_error() == "checkpoint refused: rank 1 has ended its program"; }));
}

TEST_F(AgentJob, ARankThatNeverJoinsIsNamedAndTheRestRuns) {
  fakes_ = std::vector<FakeRank>(2);
  AgentConfig c = config(0, 3);
  c.limits.user_join_bound = 100'000;
  add(c, fakes_[0]);
  add(config(1, 3), fakes_[1]);
  ASSERT_TRUE(soon([&] { return joined() == 2; }));
  EXPECT_EQ(checkpoint_error(),
            "checkpoint refused: rank 2 has not joined yet: its MPI is only just starting, or it was started "
            "without cropdl-run");
}

TEST_F(AgentJob, ARankThatNeverJoinsIsNamedOnceWhereVersionsComeByThemselves) {
  fakes_ = std::vector<FakeRank>(1);
  AgentConfig c = config(0, 2);
  c.schedule.kind = Schedule::Kind::kAutomatic;
  c.schedule.max_overhead = 1;
  c.shortest_interval = 0.05;
  c.rendezvous_seconds = 1;  // it may join until then
  c.limits.join_bound = 10'000;
  const auto begin = Clock::now();
  add(c, fakes_[0]);
  ASSERT_TRUE(soon([&] { return !lines().empty(); }));
  EXPECT_GE(since(begin), 1);
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  EXPECT_EQ(lines(), std::vector<std::string>{"checkpoint refused: rank 1 has not joined yet: its MPI is "
                                              "only just starting, or it was started without cropdl-run"});
}

TEST_F(AgentJob, ARankWithoutTimeLeftStillTriesToJoin) {
  fakes_ = std::vector<FakeRank>(2);
  add(config(0, 2), fakes_[0]);
  AgentConfig late = config(1, 2);
  late.rendezvous_seconds = 0;
  add(late, fakes_[1]);
  EXPECT_TRUE(soon([&] { return joined() == 2; })) << (lines().empty() ? "" : lines()[0]);
}

TEST_F(AgentJob, AHelloThatCameWhileTheHubWasPausedIsAnswered) {
  const int64_t now = monotonic_us();
  const auto hub = Hub::open(
      config(0, 2), &sink_, [] { return uint64_t{0}; }, now);
  ASSERT_TRUE(hub) << hub.error().message;
  bool missing, refused;
  const Result<JobFile> job = read_job_file(dir_.path, &missing);
  ASSERT_TRUE(job) << job.error().message;
  auto stream = connect_to(job->address, &refused);
  ASSERT_TRUE(stream) << stream.error().message;
  Channel channel(std::move(*stream));
  ASSERT_TRUE(channel.send(message_bytes(Hello{kWireVersion, job->token, "run-1", 1})));
  std::vector<pollfd> fds;
  (*hub)->add_to_poll(&fds);
  fds[0].revents = POLLIN;  // the listener
  (*hub)->handle(fds, 0, now);
  (*hub)->tick(now + 1'000'000'000);
  std::vector<std::string> got;
  EXPECT_TRUE(channel.receive(&got)) << "it was hung up on";
  ASSERT_EQ(got.size(), 1u);
  EXPECT_TRUE(std::holds_alternative<Welcome>(message_from_bytes(got[0]).value()));
}

TEST_F(AgentJob, ARankThatIsDroppedBeforeItsWelcomeComesAgain) {
  const Result<Listener> hub = Listener::open();
  ASSERT_TRUE(hub) << hub.error().message;
  ASSERT_TRUE(write_job_file(dir_.path, {hub->address(), "t", "run-1", getpid(), host_name(), 2, utc_now()}));
  fakes_ = std::vector<FakeRank>(1);
  add(config(1, 2), fakes_[0]);
  for (int i = 0; i < 2; ++i) {
    bool no_room = false;
    EXPECT_TRUE(soon([&] { return hub->accept(&no_room) != nullptr; })) << i;
  }
}

TEST_F(AgentJob, RanksOfAnotherLaunchDoNotMix) {
  bool missing;
  fakes_ = std::vector<FakeRank>(3);
  // Left behind by a killed run.
  ASSERT_TRUE(write_job_file(dir_.path, {"local:cropdl-dead", "t", "run-1", 1, host_name(), 2, utc_now()}));
  AgentConfig other = config(1, 2);
  other.run_id = "run-2";
  other.rendezvous_seconds = 0.3;
  add(config(1, 2), fakes_[1]);
  add(config(0, 2), fakes_[0]);
  add(other, fakes_[2]);
  ASSERT_TRUE(read_job_file(dir_.path, &missing));
  EXPECT_EQ(checkpoint_error(), "(published)");
  EXPECT_EQ(fakes_[2].holds, 0);
  ASSERT_TRUE(soon([&] { return !lines().empty(); }));
  EXPECT_EQ(lines()[0],
            "no checkpoints: rank 1: rank 0 was not found: " + dir_.path + "/job is of another launch");
}

// A script per rank runs a helper, then a solver, and the ranks are out of step.
TEST_F(AgentJob, ASolverThatJoinedRankZerosHelperFindsRankZerosSolver) {
  fakes_ = std::vector<FakeRank>(3);
  fakes_[1].met = false;
  Agent& helper = add(config(0, 2), fakes_[0]);
  AgentConfig c = config(1, 2);
  c.outlives_seconds = 0.05;
  add(c, fakes_[1]);
  ASSERT_TRUE(soon([&] { return joined() == 2; }));
  helper.stop();
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  add(config(0, 2), fakes_[2]);
  EXPECT_TRUE(soon([&] { return joined() == 2; }));
  EXPECT_EQ(checkpoint_error(), "(published)");
  EXPECT_EQ(fakes_[1].holds, 1);
  EXPECT_EQ(lines(), std::vector<std::string>());
}

TEST_F(AgentJob, ASolverThatNoHubFollowsIsReported) {
  fakes_ = std::vector<FakeRank>(2);
  fakes_[1].met = false;
  add(config(0, 2), fakes_[0]);
  AgentConfig c = config(1, 2);
  c.outlives_seconds = 0.1;
  c.rendezvous_seconds = 0.3;
  add(c, fakes_[1]);
  ASSERT_TRUE(soon([&] { return joined() == 2; }));
  agents_[0]->stop();
  ASSERT_TRUE(soon([&] { return !lines().empty(); }));
  EXPECT_EQ(lines(),
            std::vector<std::string>{"no more checkpoints: rank 0 has ended; rank 1 goes on without it"});
}

// The next job in the directory may run elsewhere.
TEST_F(AgentJob, ARankThatHasLostRankZeroIsNoRankOfTheNextLaunch) {
  fakes_ = std::vector<FakeRank>(2);
  fakes_[1].met = false;
  AgentConfig first = config(0, 2), c = config(1, 2);
  first.host = c.host = "node-a";
  c.outlives_seconds = 0.1;
  c.rendezvous_seconds = 0.5;
  add(first, fakes_[0]);
  add(c, fakes_[1]);
  ASSERT_TRUE(soon([&] { return joined() == 2; }));
  agents_[0]->stop();
  ASSERT_TRUE(write_job_file(dir_.path, {"local:cropdl-elsewhere", "t", "run-2", 1, "node-b", 2, utc_now()}));
  ASSERT_TRUE(soon([&] { return !lines().empty(); }));
  EXPECT_EQ(remote_rank_host(dir_.path, "run-2", 1), "");
}

TEST_F(AgentJob, AHelperThatEndedMakesRoomForTheSolverOfItsRank) {
  fakes_ = std::vector<FakeRank>(3);
  fakes_[1].met = false;
  add(config(0, 2), fakes_[0]);
  Agent& helper = add(config(1, 2), fakes_[1]);
  ASSERT_TRUE(soon([&] { return joined() == 2; }));
  helper.stop();
  ASSERT_TRUE(soon([&] { return joined() == 1; }));
  EXPECT_EQ(checkpoint_error(), "checkpoint refused: rank 1 has ended its program");
  add(config(1, 2), fakes_[2]);
  EXPECT_TRUE(soon([&] { return joined() == 2; }));
  EXPECT_EQ(checkpoint_error(), "(published)");
  EXPECT_EQ(fakes_[1].holds, 0);
  EXPECT_EQ(fakes_[2].holds, 1);
  say_sigterm(*agents_[2]);
  EXPECT_TRUE(soon([&] { return fakes_[2].left_with == 75; })) << "the helper still counts as lost";
}

TEST_F(AgentJob, ARankThatMetOthersOrIsInAVersionIsNotReplaced) {
  for (const bool met : {true, false}) {
    agents_.clear();
    lines_.clear();
    fakes_ = std::vector<FakeRank>(3);
    fakes_[1].met = met;
    fakes_[2].met = false;
    add(config(0, 2), fakes_[0]);
    Agent& one = add(config(1, 2), fakes_[1]);
    ASSERT_TRUE(soon([&] { return joined() == 2; }));
    if (!met) {
      EXPECT_EQ(checkpoint_error(), "(published)");
    }
    one.stop();
    ASSERT_TRUE(soon([&] { return joined() == 1; }));
    AgentConfig c = config(1, 2);
    c.rendezvous_seconds = 0.3;
    add(c, fakes_[2]);
    ASSERT_TRUE(soon([&] { return !lines().empty(); }));
    EXPECT_EQ(
        lines()[0],
        "no checkpoints: rank 1: rank 0 was not found: rank 0 refuses it: there is such a rank already");
    EXPECT_EQ(checkpoint_error(), "checkpoint refused: rank 1 has ended its program");
    EXPECT_EQ(fakes_[2].holds, 0);
  }
}

TEST_F(AgentJob, ASolverThatRankZerosHelperHasNoRoomForFindsRankZerosSolver) {
  fakes_ = std::vector<FakeRank>(4);
  fakes_[2].met = false;
  add(config(0, 2), fakes_[0]);
  add(config(1, 2), fakes_[1]);
  ASSERT_TRUE(soon([&] { return joined() == 2; }));
  agents_[1]->stop();
  add(config(1, 2), fakes_[2]);
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  agents_[0].reset();  // as at a process's end, with the connections that nobody has accepted
  add(config(0, 2), fakes_[3]);
  EXPECT_TRUE(soon([&] { return joined() == 2; }));
  EXPECT_EQ(lines(), std::vector<std::string>());
}

TEST_F(AgentJob, ARestartSearchesForNoOtherRankZero) {
  const pid_t pid = fork_rank(0, 2, false);
  fakes_ = std::vector<FakeRank>(1);
  fakes_[0].met = false;
  AgentConfig c = config(1, 2);
  c.restart = true;
  c.rendezvous_seconds = 60;
  Agent& one = add(c, fakes_[0]);
  ASSERT_TRUE(soon([&] { return joined() == 2; }));
  const auto begin = Clock::now();
  std::jthread killer([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    kill_rank(pid);
  });
  const auto dead = one.exchange("x");
  ASSERT_FALSE(dead);
  EXPECT_EQ(dead.error().message, "rank 0 is gone");
  EXPECT_LT(since(begin), 30);
}

TEST_F(AgentJob, ARankOnAnotherNodeIsNamedAndTheProgramRuns) {
  fakes_ = std::vector<FakeRank>(1);
  // Rank 0's socket cannot be reached from another node; nor can this one.
  ASSERT_TRUE(write_job_file(dir_.path, {"local:cropdl-elsewhere", "t", "run-1", 1, "node-a", 2, utc_now()}));
  AgentConfig away = config(1, 2);
  away.host = "node-b";
  add(away, fakes_[0]);
  ASSERT_TRUE(soon([&] { return !lines().empty(); }));
  EXPECT_EQ(lines()[0],
            "no checkpoints: rank 1: it runs on node-b and rank 0 on node-a; checkpoints need all ranks on "
            "one node in "
            "this version; the program runs");
  EXPECT_EQ(remote_rank_host(dir_.path, "run-1", 1), "node-b");
  EXPECT_EQ(remote_rank_host(dir_.path, "run-2", 1), "");
}

TEST_F(AgentJob, ARankOnAnotherNodeIsNamedAlsoWhereItsLaunchHasAnotherName) {
  fakes_ = std::vector<FakeRank>(2);
  AgentConfig first = config(0, 2), away = config(1, 2);
  first.host = "node-a";
  away.host = "node-b";
  away.run_id = "run-1 on node-b";
  away.rendezvous_seconds = 0.5;
  add(first, fakes_[0]);
  add(away, fakes_[1]);
  ASSERT_TRUE(soon([&] { return !lines().empty(); }));
  EXPECT_EQ(lines()[0],
            "no checkpoints: rank 1: rank 0 was not found: " + dir_.path +
                "/job is of a launch on node-a, and this rank runs on node-b; checkpoints need all "
                "ranks on one node in this version; the program runs");
  EXPECT_EQ(
      checkpoint_error(),
      "checkpoint refused: rank 1 runs on node-b and rank 0 on node-a; checkpoints need all ranks on one "
      "node in this version; the program runs");
}

TEST_F(AgentJob, StrangersWithoutTheTokenAreNotServed) {
  start(1);
  bool missing, refused;
  const Result<JobFile> job = read_job_file(dir_.path, &missing);
  ASSERT_TRUE(job);
  JobFile forged = *job;
  forged.token = "0123";
  ASSERT_TRUE(write_job_file(dir_.path, forged));
  EXPECT_EQ(checkpoint_error(),
            "the job on " + dir_.path + " does not take this command: it does not belong to this job");
  auto raw = connect_to(job->address, &refused);
  ASSERT_TRUE(raw);
  Channel channel(std::move(*raw));
  channel.send("nonsense");
  std::vector<std::string> got;
  EXPECT_TRUE(soon([&] { return !channel.receive(&got); })) << "nonsense was not hung up on";
  ASSERT_TRUE(write_job_file(dir_.path, *job));
  EXPECT_EQ(checkpoint_error(), "(published)");
}

TEST_F(AgentJob, VerdictsAreExchangedInRankOrderBeforeMpiExists) {
  constexpr uint32_t kRanks = 4;
  fakes_ = std::vector<FakeRank>(kRanks);
  std::vector<std::thread> threads;
  std::mutex adding;
  for (uint32_t r = 0; r < kRanks; ++r)
    threads.emplace_back([&, r] {
      std::this_thread::sleep_for(std::chrono::milliseconds((kRanks - r) * 5));  // rank 0 comes last
      Agent* a;
      {
        const std::lock_guard lock(adding);
        a = &add(config(r, kRanks), fakes_[r]);
      }
      for (const std::string what : {"first", "second"}) {
        const auto all = a->exchange(what + std::to_string(r));
        ASSERT_TRUE(all) << all.error().message;
        EXPECT_EQ(*all, (std::vector<std::string>{what + "0", what + "1", what + "2", what + "3"}));
      }
    });
  for (std::thread& t : threads) t.join();
}

TEST_F(AgentJob, AnExchangeEndsWithAReasonWhenARankDies) {
  const pid_t pid = fork_rank(1, 2, false);
  fakes_ = std::vector<FakeRank>(1);
  Agent& zero = add(config(0, 2), fakes_[0]);
  ASSERT_TRUE(soon([&] { return joined() == 2; }));
  std::jthread killer([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    kill_rank(pid);
  });
  const auto dead = zero.exchange("x");
  killer.join();
  ASSERT_FALSE(dead);
  EXPECT_EQ(dead.error().message.rfind("rank 1 is gone", 0), 0u) << dead.error().message;
}

TEST_F(AgentJob, AnExchangeNamesTheRankThatWasLostFirst) {
  start(3);
  for (const uint32_t r : {2u, 1u}) {
    ASSERT_TRUE(soon([&] { return joined() == r + 1; }));
    agents_[r]->stop();
  }
  ASSERT_TRUE(soon([&] { return joined() == 1; }));
  const auto lost = agents_[0]->exchange("x");
  ASSERT_FALSE(lost);
  EXPECT_EQ(lost.error().message, "rank 2 has ended its program");
}

TEST_F(AgentJob, AnExchangeThatIsTooLongForAFrameEndsWithItsReasonOnAllRanks) {
  constexpr uint32_t kRanks = 3;
  start(kRanks);
  ASSERT_TRUE(soon([&] { return joined() == kRanks; }));
  const auto exchange = [&](size_t bytes) {
    std::vector<std::string> ends(kRanks);
    {
      std::vector<std::jthread> threads;
      for (uint32_t r = 0; r < kRanks; ++r)
        threads.emplace_back([&, r] {
          const auto all = agents_[r]->exchange(std::string(bytes, 'x'));
          ends[r] = all ? std::to_string(all->size()) : all.error().message;
        });
    }
    return ends;
  };
  EXPECT_EQ(exchange(21 << 20), std::vector<std::string>(kRanks, "3"));
  const std::string why = "the ranks have more than 64 MiB to tell each other at once";
  EXPECT_EQ(exchange(22 << 20), std::vector<std::string>(kRanks, why));
  EXPECT_EQ(agents_[1]->exchange(std::string(64 << 20, 'x')).error().message, "rank 1: " + why);
}

TEST_F(AgentJob, AnExchangeEndsWithAReasonWhenARankNeverComes) {
  fakes_ = std::vector<FakeRank>(1);
  AgentConfig c = config(0, 3);
  c.rendezvous_seconds = 0.2;
  const auto missing = add(c, fakes_[0]).exchange("x");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().message, "rank 1 has not come within 0.2 s");
}

TEST_F(AgentJob, AnExchangeWaitsWhileTheOthersLiveAndNamesThem) {
  fakes_ = std::vector<FakeRank>(2);
  AgentConfig c = config(0, 2);
  c.rendezvous_seconds = 0.1;
  c.say_seconds = 0.2;
  Agent& zero = add(c, fakes_[0]);
  c.rank = 1;
  c.rendezvous_seconds = 10;
  Agent& one = add(c, fakes_[1]);
  ASSERT_TRUE(soon([&] { return joined() == 2; }));
  std::jthread slow([&] {
    EXPECT_TRUE(soon([&] { return lines().size() >= 2; }));
    EXPECT_TRUE(one.exchange("b"));
  });
  const auto all = zero.exchange("a");
  ASSERT_TRUE(all) << all.error().message;
  EXPECT_EQ(*all, (std::vector<std::string>{"a", "b"}));
  ASSERT_GE(lines().size(), 2u);
  const std::string line = lines()[0], pid = std::to_string(getpid());
  const std::regex expected("waiting for rank 1 \\(pid " + pid +
                            "\\) for \\d+ s: still loading or starting its MPI");
  EXPECT_TRUE(std::regex_match(line, expected)) << line;
}

TEST_F(AgentJob, OldVersionsAreRemovedWhileTheRanksRunAgain) {
  start(2);
  ASSERT_TRUE(soon([&] { return joined() == 2; }));
  sink_.slow_tidy = true;
  for (int i = 1; i <= 3; ++i) {  // removal takes longer than three checkpoints
    EXPECT_EQ(checkpoint_error(), "(published)");
    EXPECT_TRUE(soon([&] { return fakes_[0].resumes == i && fakes_[1].resumes == i; }));
  }
  EXPECT_EQ(sink_.tidied, 0u);
  sink_.slow_tidy = false;
  EXPECT_TRUE(soon([&] { return sink_.tidied == 1; }));
  EXPECT_EQ(checkpoint_error(), "(published)");
  agents_.clear();  // waits for the removal
  EXPECT_EQ(sink_.tidied, 2u);
}

TEST_F(AgentJob, OldVersionsThatCannotBeRemovedAreReportedOnce) {
  sink_.tidy_failure = "version 1 cannot be removed: Permission denied";
  start(2);
  ASSERT_TRUE(soon([&] { return joined() == 2; }));
  const auto times_told = [&] {
    const auto all = lines();
    return std::count(all.begin(), all.end(), sink_.tidy_failure);
  };
  EXPECT_EQ(checkpoint_error(), "(published)");
  EXPECT_TRUE(soon([&] { return times_told() == 1; }));
  EXPECT_EQ(checkpoint_error(), "(published)");
  EXPECT_TRUE(soon([&] { return sink_.tidied == 2u; }));
  agents_.clear();
  EXPECT_EQ(times_told(), 1);
}

TEST_F(AgentJob, AFailedVersionIsRemovedWhileTheRanksRunAgain) {
  start_with_early_lines(2);
  ASSERT_TRUE(soon([&] { return joined() == 2; }));
  set_write_failure(1, "No space left on device");
  sink_.slow_discard = true;
  Command failed(*this);
  EXPECT_TRUE(soon([&] { return failed.over(); })) << "the command waits for what is being removed";
  EXPECT_TRUE(soon([&] { return fakes_[0].resumes == 1 && fakes_[1].resumes == 1; }));
  EXPECT_TRUE(soon([&] { return sink_.discarding == 1; }));
  const auto status = job_status(dir_.path, 60);
  EXPECT_TRUE(status) << status.error().message;
  set_write_failure(1, "");
  Command next(*this);  // accepted, and starts when the store is free again
  EXPECT_TRUE(soon([&] { return next.waits(); }));
  EXPECT_FALSE(next.over());
  EXPECT_EQ(fakes_[0].holds, 1) << "ranks are held for what waits for the store";
  EXPECT_EQ(sink_.discarded, 0u);
  sink_.slow_discard = false;
  EXPECT_EQ(failed.line(), "checkpoint failed: rank 1: No space left on device");
  EXPECT_EQ(next.line(), "(published)");
  EXPECT_EQ(sink_.begun, 2u);
  EXPECT_EQ(sink_.discarded, 1u);
  EXPECT_FALSE(sink_.two_at_a_time);
}

TEST_F(AgentJob, TheEndWaitsForTheRemovalOfOldVersions) {
  start_with_early_lines(2);
  ASSERT_TRUE(soon([&] { return joined() == 2; }));
  set_write_failure(1, "No space left on device");
  sink_.slow_discard = true;
  Command failed(*this);
  EXPECT_TRUE(soon([&] { return failed.over(); }));
  Command next(*this);
  ASSERT_TRUE(soon([&] { return next.waits(); }));
  std::jthread removed([&] {
    EXPECT_TRUE(soon([&] { return next.over(); })) << "a request waits for the removal at the end";
    sink_.slow_discard = false;
  });
  agents_[0]->stop();
  EXPECT_EQ(sink_.discarded, 1u);
  EXPECT_NE(next.line(), "(published)");
  EXPECT_EQ(sink_.begun, 1u);
}

TEST_F(AgentJob, TheEndAmidOfWritingRemovesTheVersion) {
  start(2);
  ASSERT_TRUE(soon([&] { return joined() == 2; }));
  fakes_[1].slow_write = true;
  signal_event(agents_[0]->request_descriptor());
  ASSERT_TRUE(soon([&] { return job_status(dir_.path)->phase == "writing"; }));
  agents_[0]->stop();
  EXPECT_EQ(sink_.discarded, 1u);
  EXPECT_FALSE(sink_.two_at_a_time);
}

TEST_F(AgentJob, AnIntervalThatFallsIntoTheStartWaitsWithoutAWord) {
  fakes_ = std::vector<FakeRank>(2);
  fakes_[1].stands.starting = true;
  fakes_[1].stands.refusal = "only just being started";
  for (uint32_t r = 0; r < 2; ++r) {
    AgentConfig c = config(r, 2);
    c.schedule = every(0.05);
    c.limits.join_bound = 10'000;  // rank 1 has not even joined yet
    add(c, fakes_[r]);
  }
  ASSERT_TRUE(soon([&] { return fakes_[1].holds >= 2; }));
  EXPECT_EQ(sink_.versions, 0u);
  // the requester gets the reason
  EXPECT_EQ(checkpoint_error_among_others(), "checkpoint refused: rank 1: only just being started");
  {
    const std::lock_guard lock(fakes_[1].mutex);
    fakes_[1].stands = {};
  }
  EXPECT_TRUE(soon([&] { return sink_.versions >= 1; }));
  EXPECT_EQ(lines(), std::vector<std::string>());
}

TEST_F(AgentJob, BeforeATimeLimitTheJobEndsByALastVersion) {
  fakes_ = std::vector<FakeRank>(2);
  const auto begin = Clock::now();
  for (uint32_t r = 0; r < 2; ++r) {
    AgentConfig c = config(r, 2);
    c.time_limit = 30.5;  // the version comes at 0.5 s: the margin is 1 s plus twice its expected time
    c.former_cost = 14.5;
    add(c, fakes_[r]);
  }
  for (FakeRank& f : fakes_) EXPECT_TRUE(soon([&] { return f.left_with == 75; }));
  EXPECT_GT(since(begin), 0.4);
  EXPECT_LT(since(begin), 30.5);
  EXPECT_EQ(sink_.versions, 1u);
  EXPECT_EQ(sink_.tidied, 0u);
  for (FakeRank& f : fakes_) EXPECT_EQ(f.resumes, 0);
  EXPECT_FALSE(std::filesystem::exists(dir_.path + "/job"));
  EXPECT_EQ(lines(), std::vector<std::string>{
                         "version 1 was taken before the time limit; the job ends with status 75, and "
                         "cropdl-restart " +
                         dir_.path + " continues it"});
}

TEST_F(AgentJob, ATooShortTimeLimitIsReportedAtOnceAndIgnoredUntilAVersionProvesQuick) {
  for (const int limit : {4, 12, 36}) {  // the later ones are for a machine that is too busy for the first
    agents_.clear();
    lines_.clear();
    fakes_ = std::vector<FakeRank>(1);
    fakes_[0].memory = 100'000'000'000;
    AgentConfig c = config(0, 1);
    c.time_limit = limit;
    const auto begin = Clock::now();
    add(c, fakes_[0]);
    ASSERT_EQ(lines().size(), 1u);
    EXPECT_EQ(
        lines()[0],
        "the time limit is " + std::to_string(limit) +
            " s from now, which is too short for a last version: one may take 2e+02 s, "
            "and 4e+02 s are reserved for it; none is taken for it, unless another version proves quicker");
    EXPECT_EQ(checkpoint_error(), "(published)");
    EXPECT_TRUE(soon([&] { return fakes_[0].resumes == 1; }));
    ASSERT_TRUE(soon([&] { return fakes_[0].left_with == 75 || since(begin) > limit + 1; }));
    if (fakes_[0].left_with == 75) break;
  }
  EXPECT_EQ(fakes_[0].left_with, 75);
}

TEST_F(AgentJob, ALastVersionThatIsRefusedIsAskedForAgainWhileThereIsTime) {
  // A version comes 1 s after the start, and again each second until its cost is left. The later ones are for
  // a machine that is too busy for the first.
  for (const double cost : {0.4, 5.0, 25.0}) {
    agents_.clear();
    lines_.clear();
    fakes_ = std::vector<FakeRank>(1);
    fakes_[0].stands.refusal = "a pipe is open";
    AgentConfig c = config(0, 1);
    c.time_limit = 2 + 2 * cost;
    c.former_cost = cost;
    add(c, fakes_[0]);
    ASSERT_TRUE(soon([&] { return !lines().empty(); }));
    if (fakes_[0].holds >= 2) break;
  }
  EXPECT_GE(fakes_[0].holds, 2);
  EXPECT_EQ(lines(), std::vector<std::string>{"no last version was taken before the time limit: checkpoint "
                                              "refused: rank 0: a pipe is open; the program goes on"});
  EXPECT_EQ(fakes_[0].left_with, 0);
  EXPECT_TRUE(soon([&] { return fakes_[0].resumes == fakes_[0].holds; }));
}

TEST_F(AgentJob, ALastVersionThatACommandWasRefusedTakesNoneFromTheTimeLimit) {
  fakes_ = std::vector<FakeRank>(1);
  fakes_[0].unstoppable = true;
  AgentConfig c = config(0, 1);
  c.time_limit = 30;
  c.former_cost = 13.4;  // would come at 2.2 s
  c.limits.attempt_bound = 2'500'000;
  add(c, fakes_[0]);
  const auto reply = request_checkpoint(dir_.path, 60, true);
  EXPECT_FALSE(reply);
  {
    const std::lock_guard lock(fakes_[0].mutex);
    fakes_[0].unstoppable = false;
  }
  EXPECT_TRUE(soon([&] { return fakes_[0].left_with == 75; })) << (lines().empty() ? "" : lines()[0]);
}

TEST_F(AgentJob, ALastVersionByCommandMayExceedTheTimeLimit) {
  fakes_ = std::vector<FakeRank>(1);
  fakes_[0].slow_write = true;
  AgentConfig c = config(0, 1);
  c.time_limit = 3;  // it would come at 1.9 s
  const auto begin = Clock::now();
  add(c, fakes_[0]);
  std::jthread command([&] {
    const auto reply = request_checkpoint(dir_.path, 60, true);
    EXPECT_TRUE(reply) << reply.error().message;
  });
  ASSERT_TRUE(soon([&] { return sink_.begun == 1; }));
  const bool in_time = since(begin) < 1.9;
  std::this_thread::sleep_until(begin + std::chrono::milliseconds(3500));
  EXPECT_EQ(fakes_[0].resumes, 0);
  fakes_[0].slow_write = false;
  command.join();
  if (!in_time) GTEST_SKIP() << "too slow to tell: the time limit has asked first";
  EXPECT_TRUE(soon([&] { return fakes_[0].left_with == 75; }));
  EXPECT_EQ(lines(),
            std::vector<std::string>{"version 1 was taken by `cropdl checkpoint --last`; the job ends "
                                     "with status 75, and cropdl-restart " +
                                     dir_.path + " continues it"});
}

TEST_F(AgentJob, AnUnfinishedCutIsAbandonedAtTheTimeLimit) {
  reach_the_time_limit([](FakeRank& fake) { fake.unstoppable = true; }, [&] { return fakes_[0].holds == 1; });
  EXPECT_TRUE(soon([&] { return fakes_[0].resumes == 1; }));
  EXPECT_EQ(lines().size(), 1u);
  EXPECT_EQ(fakes_[0].left_with, 0);
  EXPECT_EQ(sink_.begun, 0u);
}

TEST_F(AgentJob, ImagesThatTheTimeLimitFindsUnfinishedBecomeAnOrdinaryVersion) {
  reach_the_time_limit([](FakeRank& fake) { fake.slow_write = true; }, [&] { return sink_.begun == 1; });
  EXPECT_EQ(fakes_[0].resumes, 0);
  fakes_[0].slow_write = false;
  EXPECT_TRUE(soon([&] { return fakes_[0].resumes == 1; }));
  EXPECT_EQ(sink_.versions, 1u);
  EXPECT_EQ(fakes_[0].left_with, 0);
  EXPECT_EQ(lines(), std::vector<std::string>{"no last version was taken before the time limit: rank 0 is "
                                              "writing its image; the program goes on"});
}

TEST_F(AgentJob, AtASigtermToAnyRankTheJobEndsByALastVersion) {
  start(3);
  ASSERT_TRUE(soon([&] { return joined() == 3; }));
  say_sigterm(*agents_[1]);
  say_sigterm(*agents_[2]);
  for (FakeRank& f : fakes_) EXPECT_TRUE(soon([&] { return f.left_with == 75; }));
  EXPECT_EQ(sink_.versions, 1u);
  for (FakeRank& f : fakes_) EXPECT_EQ(f.resumes, 0);
  EXPECT_EQ(lines(), std::vector<std::string>{
                         "version 1 was taken at SIGTERM; the job ends with status 75, and cropdl-restart " +
                         dir_.path + " continues it"});
}

TEST_F(AgentJob, AVersionThatIsUnderWayAtASigtermIsTheLastOne) {
  start(2);
  ASSERT_TRUE(soon([&] { return joined() == 2; }));
  sink_.slow_publish = true;
  sink_.no_memory_to_set_aside = true;  // the job ends all the same
  Command asked(*this);
  ASSERT_TRUE(soon([&] { return sink_.begun == 1 && job_status(dir_.path)->phase == "publishing"; }));
  say_sigterm(*agents_[1]);
  finish_turns();
  sink_.slow_publish = false;
  for (FakeRank& f : fakes_) EXPECT_TRUE(soon([&] { return f.left_with == 75; }));
  EXPECT_EQ(asked.line(), "(published)");
  EXPECT_EQ(sink_.versions, 1u);
}

TEST_F(AgentJob, IfAVersionThatWasAskedForAsTheLastOneFailsAfterASigtermAnotherIsTaken) {
  start(2);
  ASSERT_TRUE(soon([&] { return joined() == 2; }));
  sink_.failures = 1;
  sink_.slow_publish = true;
  std::jthread asked([&] { static_cast<void>(request_checkpoint(dir_.path, 60, true)); });
  ASSERT_TRUE(soon([&] { return sink_.begun == 1 && job_status(dir_.path)->phase == "publishing"; }));
  say_sigterm(*agents_[1]);
  finish_turns();
  sink_.slow_publish = false;
  for (FakeRank& f : fakes_) EXPECT_TRUE(soon([&] { return f.left_with == 75 || f.died_of != 0; }));
  for (FakeRank& f : fakes_) EXPECT_EQ(f.died_of, 0);
  EXPECT_EQ(sink_.versions, 1u);
}

// A launcher sends SIGTERM to the others when rank 0 has ended. The rank must read the order to end that rank
// 0 sent before, although it can send it nothing any more.
TEST_F(AgentJob, ALateRankThatGetsASigtermAfterRankZeroHasEndedIsNotResumed) {
  class LateRank : public FakeRank {
   public:
    explicit LateRank(FakeRank& first) : first_(first) {}
    bool written(Status* failure, ImageSummary* image) override {
      wrote_ = FakeRank::written(failure, image);
      return wrote_;
    }
    bool take_sigterm() override {
      if (!std::exchange(wrote_, false)) return false;
      return soon([&] { return first_.left_with == 75; });
    }

   private:
    FakeRank& first_;
    bool wrote_ = false;
  };
  FakeRank first;
  LateRank late(first);
  add(config(0, 2), first);
  add(config(1, 2), late);
  ASSERT_TRUE(soon([&] { return joined() == 2; }));
  say_sigterm(*agents_[0]);
  EXPECT_TRUE(soon([&] { return late.left_with == 75 || late.died_of == SIGTERM; }));
  EXPECT_EQ(late.left_with, 75);
  EXPECT_EQ(late.resumes, 0);
  agents_.clear();
}

TEST_F(AgentJob, ARankWhoseLastVersionIsRefusedDiesOfItsSigterm) {
  start(2);
  ASSERT_TRUE(soon([&] { return joined() == 2; }));
  {
    const std::lock_guard lock(fakes_[0].mutex);
    fakes_[0].stopped_refusal = "a pipe is open";
  }
  say_sigterm(*agents_[1]);
  EXPECT_TRUE(soon([&] { return fakes_[1].died_of == SIGTERM; }));
  EXPECT_EQ(lines(),
            std::vector<std::string>{"no last version was taken at SIGTERM: checkpoint refused: rank "
                                     "0: a pipe is open; the job dies of it"});
  EXPECT_EQ(fakes_[0].died_of, 0);
  for (FakeRank& f : fakes_) {
    EXPECT_TRUE(soon([&] { return f.resumes >= 1; }));
    EXPECT_EQ(f.left_with, 0);
  }
}

TEST_F(AgentJob, ASigtermAfterALostRankKillsAndPrintsWhyOnce) {
  start(3);
  ASSERT_TRUE(soon([&] { return joined() == 3; }));
  agents_[2]->stop();
  ASSERT_TRUE(soon([&] { return joined() == 2; }));
  say_sigterm(*agents_[1]);
  EXPECT_TRUE(soon([&] { return fakes_[1].died_of == SIGTERM; }));
  EXPECT_EQ(fakes_[0].died_of, 0);
  say_sigterm(*agents_[0]);
  EXPECT_TRUE(soon([&] { return fakes_[0].died_of == SIGTERM; }));
  EXPECT_EQ(lines(),
            std::vector<std::string>{
                "no last version was taken at SIGTERM: rank 2 has ended its program; the job dies of it"});
  EXPECT_EQ(sink_.begun, 0u);
}

TEST_F(AgentJob, ARankThatLosesRankZeroDiesOfItsSigterm) {
  start(2);
  ASSERT_TRUE(soon([&] { return joined() == 2; }));
  fakes_[0].unstoppable = true;
  say_sigterm(*agents_[1]);
  ASSERT_TRUE(soon([&] { return fakes_[1].holds == 1; }));
  agents_[0]->stop();
  EXPECT_TRUE(soon([&] { return fakes_[1].died_of == SIGTERM; }));
}

TEST_F(AgentJob, AStoreWithoutMemoryFailsTheCheckpointAndTheNextSucceeds) {
  start(2);
  sink_.no_memory_to_begin = true;
  EXPECT_NE(checkpoint_error().find("checkpoint failed: this rank has no memory left"), std::string::npos);
  sink_.no_memory_to_begin = false;
  sink_.no_memory_to_publish = true;
  EXPECT_NE(checkpoint_error().find("checkpoint failed: this rank has no memory left"), std::string::npos);
  sink_.no_memory_to_publish = false;
  EXPECT_EQ(checkpoint_error(), "(published)");
}

TEST_F(AgentJob, RanksWithoutMemoryToFollowIterationsAreSavedAllTheSame) {
  fakes_ = std::vector<FakeRank>(2);
  for (uint32_t r = 0; r < 2; ++r) {
    fakes_[r].no_memory_in = "observe";
    add(config(r, 2), fakes_[r]);
  }
  EXPECT_EQ(checkpoint_error(), "(published)");
  EXPECT_EQ(checkpoint_error(), "(published)");
}

TEST_F(AgentJob, AnAgentThatCannotGoOnForLackOfMemoryLeavesItsProgramRunning) {
  for (const uint32_t without : {1u, 0u}) {
    agents_.clear();
    start(2);
    ASSERT_TRUE(soon([&] { return joined() == 2; }));
    {
      const std::lock_guard lock(fakes_[without].mutex);
      fakes_[without].no_memory_in = "take_sigterm";
    }
    signal_event(agents_[0]->request_descriptor());
    const std::string expected =
        "no more checkpoints: rank " + std::to_string(without) + ": this rank has no memory";
    const auto said = [&] {
      for (const std::string& line : lines())
        if (line.find(expected) == 0) return true;
      return false;
    };
    EXPECT_TRUE(soon(said)) << expected;
    EXPECT_TRUE(
        soon([&] { return fakes_[0].holds == fakes_[0].resumes && fakes_[1].holds == fakes_[1].resumes; }));
    EXPECT_EQ(fakes_[without].died_of, 0);
    say_sigterm(*agents_[without]);
    EXPECT_TRUE(soon([&] { return fakes_[without].died_of == SIGTERM; }));
  }
}

TEST_F(AgentJob, ThePhaseIsTracedOnlyWhenWanted) {
  start(1);
  EXPECT_FALSE(std::filesystem::exists(dir_.path + "/phase"));
  agents_.clear();
  AgentConfig c = config(0, 1);
  c.trace_phase = true;
  Agent& a = add(c, fakes_[0]);
  const auto phase = [&] {
    std::string s;
    std::ifstream(dir_.path + "/phase") >> s;
    return s;
  };
  EXPECT_EQ(phase(), "idle");
  a.note_phase("restarting");
  EXPECT_EQ(phase(), "restarting");
  fakes_[0].slow_write = true;
  signal_event(a.request_descriptor());
  EXPECT_TRUE(soon([&] { return phase() == "writing"; }));
  fakes_[0].slow_write = false;
  EXPECT_TRUE(soon([&] { return phase() == "idle"; }));
}

TEST_F(AgentJob, AnIdleJobUsesNoProcessorTime) {
  start(4);
  ASSERT_TRUE(soon([&] { return joined() == 4; }));
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  rusage a, b;
  getrusage(RUSAGE_SELF, &a);
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  getrusage(RUSAGE_SELF, &b);
  EXPECT_LE(b.ru_nvcsw - a.ru_nvcsw, 5) << "an agent wakes up with nothing to do";
}

TEST_F(AgentJob, StoppingMidAttemptLeavesNoOneHeld) {
  start(2);
  ASSERT_TRUE(soon([&] { return joined() == 2; }));
  fakes_[1].unstoppable = true;
  signal_event(agents_[0]->request_descriptor());
  ASSERT_TRUE(soon([&] { return fakes_[0].holds == 1 && fakes_[1].holds == 1; }));
  agents_[0]->stop();
  EXPECT_EQ(fakes_[0].resumes, 1);
  EXPECT_TRUE(soon([&] { return fakes_[1].resumes == 1; }));
  EXPECT_FALSE(std::filesystem::exists(dir_.path + "/job"));
}

}  // namespace
}  // namespace cropdl::coord
