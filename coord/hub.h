// Rank 0's side of the control plane: accepts ranks and the cropdl command, drives the coordinator, runs
// exchanges and the interval. For rank 0's agent thread only (LH FS base). Times: CLOCK_MONOTONIC, us.
#pragma once

#include <poll.h>

#include <algorithm>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "coord/agent_config.h"
#include "coord/channel.h"
#include "coord/interval_policy.h"
#include "coord/job_file.h"
#include "coord/metrics.h"
#include "coord/progress.h"
#include "coord/publisher.h"
#include "coord/version_sink.h"
#include "coord/wire.h"

namespace cropdl::coord {

class Hub {
 public:
  // Starts listening and writes DIR/job. `memory`: LocalRank::memory_bytes() of rank 0.
  static Result<std::unique_ptr<Hub>> open(const AgentConfig& config, VersionSink* sink,
                                           std::function<uint64_t()> memory, int64_t now);

  void add_to_poll(std::vector<pollfd>* fds);
  // `fds` as extended by add_to_poll(), from index `first` on.
  void handle(const std::vector<pollfd>& fds, size_t first, int64_t now);
  void tick(int64_t now);
  std::optional<int64_t> deadline() const;

  void signalled(int64_t now);  // requests a version when all ranks have joined
  void from_rank(uint32_t rank, const Message& message, int64_t now);  // from outside: of rank 0
  // Without a descriptor table of its own: it keeps no connection under a number that the program may use.
  void share_descriptors() { shares_descriptors_ = true; }
  void note(const Iterations& iterations) { iterations_ = iterations; }  // of rank 0
  // Prints queued lines for people; may block on a terminal, so only after rank 0 has its orders.
  void tell();
  std::vector<Message> take_for_own_rank() { return std::exchange(for_own_rank_, {}); }

  void close(int64_t now);  // call when the program of rank 0 ends

 private:
  struct Connection {
    explicit Connection(std::unique_ptr<Stream> stream) : channel(std::move(stream)) {}
    Channel channel;
    Descriptor process;  // readable when the process at the other end has ended
    int pid = 0;
    bool known = false;       // said Hello
    uint32_t rank = kNoRank;  // kNoRank: a cropdl command
    bool waits = false;       // waits for Done
    bool broken = false;
    std::string why_broken;     // completes "rank R ..."
    int64_t stopped_since = 0;  // process seen stopped since then; 0: not stopped
    int64_t since = 0;
  };

  Hub(const AgentConfig& config, VersionSink* sink, std::function<uint64_t()> memory, Listener listener,
      JobFile job, int64_t now);
  void accept_waiting(int64_t now);
  void serve(Connection& c, short events, int64_t now);
  // These two break the connection if they cannot send.
  void send(Connection& c, const Message& message);
  static void send(Connection& c, const Frame& frame);
  static void break_off(Connection& c);  // for lack of memory
  void on_request(Connection& c, bool last, int64_t now);
  void on_message(Connection& c, const Message& message, int64_t now);
  void greet(Connection& c, const Hello& hello, int64_t now);
  void drop_broken(int64_t now);
  void lose(uint32_t rank, const std::string& why, int64_t now);  // `why` completes "rank R ..."
  void to_rank(uint32_t rank, const Message& message);
  void carry_out(Actions actions, int64_t now);
  // Makes a step of the coordinator and carries out its actions.
  template <class Step, class... A>
  void take_step(int64_t now, Step step, const A&... arguments) {
    Actions out;
    (coordinator_.*step)(arguments..., now, &out);
    carry_out(std::move(out), now);
  }
  void take_from_publisher(int64_t now);
  void tell_what_stays(const Status& tidied);
  void request(int64_t now);  // for a signal or the interval
  void say(std::string line) { lines_.push_back(std::move(line)); }
  uint32_t alive() const;
  bool all_joined() const { return std::count(joined_.begin(), joined_.end(), false) == 0; }
  void finished(Outcome outcome, int64_t now);
  void at_interval(int64_t now);
  double predicted_cost() const;
  double beside_seconds() const;
  int64_t last_version_at() const;
  void begin_to_watch_the_limit(int64_t now);
  void watch_the_limit_if_long_enough(int64_t now);
  void at_limit(int64_t now);
  enum class LastFor { kNothing, kTimeLimit, kSigterm, kCommand };
  void ask_for_last_version(LastFor why, int64_t now);
  void got_sigterm(uint32_t rank, int64_t now);
  void let_die();
  void last_version_is_over(const Outcome& outcome, int64_t now);
  void learn(const Outcome& outcome, int64_t now);
  void bring_metrics_up_to_date(int64_t now);
  void write_metrics(int64_t now);
  double cost_at(double speed) const;
  int64_t foresee(int64_t now);
  void disk_measured(const Result<double>& speed, int64_t now);
  void look_for_remote_ranks(int64_t now);
  void look_for_stopped(int64_t now);
  void say_what_is_awaited(int64_t now);
  void gather(uint32_t rank, const ExchangeMine& m, int64_t now);
  void fail_exchanges(uint32_t rank, const std::string& why);
  void look_after_exchanges(int64_t now);

  // Seconds; the cost of a version without its bytes: the agreement, the store's directories and fsyncs.
  static constexpr double kAssumedFixed = 0.05;

  AgentConfig config_;
  VersionSink* sink_;
  Listener listener_;
  JobFile job_;
  Coordinator coordinator_;
  Publisher publisher_;
  bool began_to_tick_ = false;  // by now the agent's thread calls, and not the one that makes it
  bool shares_descriptors_ = false;
  bool told_no_room_ = false;  // reported that a connection could not be accepted
  int64_t accept_again_ = 0;   // 0: the listener is polled; else not before this time
  std::list<Connection> connections_;
  std::vector<Connection*> ranks_;  // by rank; nullptr: rank 0 and ranks without a connection
  std::vector<bool> joined_;
  std::vector<bool> left_alone_;  // by rank: its program has ended and had met no other rank
  std::vector<Message> for_own_rank_;
  struct Gathering {
    std::map<uint32_t, std::string> texts;  // by rank
    uint64_t bytes = 0;                     // as kLongestExchange counts them
    int64_t give_up_at = 0;                 // time limit for ranks that have not joined
    int64_t say_at = 0;                     // when to report the missing ranks
    int64_t began = 0;
  };
  std::map<uint64_t, Gathering> exchanges_;  // by round
  // Ranks without which there are no exchanges any more, and why; the first one is the cause that is named.
  std::vector<std::pair<uint32_t, std::string>> lost_;
  std::function<uint64_t()> memory_;
  int64_t began_;                         // start of this run
  std::optional<IntervalPolicy> policy_;  // for an automatic schedule
  double told_interval_ = 0;              // the policy's interval that was last reported
  int64_t next_interval_ = 0;             // 0: none, or a version is being taken
  double last_cost_ = 0;                  // seconds, of this run's last version; 0: none
  std::optional<double> stands_since_;    // processor time of this thread when the program was stopped
  double still_seconds_ = 0;              // of that time, while it stood still: held_seconds has it
  double background_seconds_ = 0;         // of beside_seconds(), without this thread's
  int64_t measure_at_ = 0;                // the disk is not measured before
  double disk_speed_ = 0;                 // bytes/s, as measured; 0: not known, or not fast
  // The job's last version.
  int64_t limit_ = 0;        // time limit of the job; 0: unknown, or to be ignored
  int64_t short_limit_ = 0;  // one too short for the expected version, until a version is measured
  int64_t next_end_ = 0;     // when to check the limit again; 0: never
  LastFor last_for_ = LastFor::kNothing;  // why the version in progress is the last
  bool began_for_it_ = false;             // the request was started for that reason
  std::vector<bool> terminated_;          // by rank: the program got SIGTERM
  std::string why_no_last_;               // why no last version has been taken yet
  int64_t next_look_ = 0;                 // next check for stopped ranks, during a checkpoint; 0: none
  bool asked_by_client_ = false;
  int64_t asked_at_ = 0;  // time of the client's request
  int64_t say_at_ = 0;    // when to report to the client what is waited for
  bool asked_by_signal_ = false;
  int64_t again_at_ = 0;            // when to retry a signal's request that came too early; 0: never
  bool told_of_loss_ = false;       // reported why SIGTERM produced no last version
  bool closes_ = false;             // the program ends: requests not made by a user fail silently
  std::vector<std::string> lines_;  // for tell()
  Iterations iterations_;
  std::optional<ProgressLine> progress_;
  int64_t next_draw_ = 0;
  uint64_t memory_written_ = 0;  // bytes, of all ranks, in the version in progress
  std::optional<MetricsFile> metrics_file_;
  Metrics metrics_;  // set by finished(); bring_metrics_up_to_date() adds the rest
  int64_t next_metrics_ = 0;
  std::string last_line_;
  std::string last_untidy_;    // last reported error of removing old versions
  std::string last_reported_;  // last line passed to report(), so that no interval repeats it
  Phase traced_ = Phase::kIdle;
};

}  // namespace cropdl::coord
