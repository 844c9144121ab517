// See agent.h. The thread's loop: wait for a wake-up, message or deadline; pass messages between the hub (its
// own or rank 0's) and the participant; poll the participant during an attempt.
#include "coord/agent.h"

#include <poll.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <csignal>
#include <mutex>
#include <system_error>
#include <thread>

#include "base/caught.h"
#include "base/file.h"
#include "base/format.h"
#include "base/host.h"
#include "base/say.h"
#include "base/time.h"
#include "coord/event.h"
#include "coord/hub.h"
#include "coord/job_file.h"
#include "coord/link.h"
#include "coord/wait_for_any.h"

namespace cropdl::coord {

namespace {

class Loop final : public Agent {
 public:
  Loop(AgentConfig config, LocalRank& rank) : config_(std::move(config)), rank_(rank) {}
  ~Loop() override { stop(); }

  Status begin(VersionSink* sink) {
    if (!wake_ || !requested_ || !terminated_)
      return Error{"control plane: cannot make an event: " + errno_text(errno)};
    if (config_.rank == 0) {
      Result<std::unique_ptr<Hub>> hub = Hub::open(
          config_, sink, [this] { return rank_.memory_bytes(); }, monotonic_us());
      if (!hub) return hub.error();
      hub_ = std::move(*hub);
    } else {
      const auto may_follow = [this] { return !config_.restart && deadly_from_ == 0 && !rank_.met_others(); };
      link_.emplace(config_, may_follow, monotonic_us());
    }
    // The thread must neither run the program's handlers nor consume its signals.
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    Status started;
    try {
      thread_ = std::thread([this] { run(); });
    } catch (const std::system_error& error) {
      started = Error{
          "cannot start a thread of the lower half: {}; this user or container may have no more (ulimit -u)",
          errno_text(error.code().value())};
    } catch (const std::exception&) {
      started = Error{"out of memory"};
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    if (!started && hub_) hub_->close(monotonic_us());  // nothing would answer at its address
    return started;
  }

  int request_descriptor() const noexcept override { return config_.rank == 0 ? requested_.fd() : -1; }
  int terminated_descriptor() const noexcept override { return terminated_.fd(); }
  int wake_descriptor() const noexcept override { return wake_.fd(); }

  Result<std::vector<std::string>> exchange(const std::string& mine) override {
    if (mine.size() > kLongestExchange) return Error{"rank {}: {}", config_.rank, kTooMuchToExchange};
    std::unique_lock lock(mutex_);
    const uint64_t round = ++round_;
    to_exchange_ = ExchangeMine{round, mine};
    exchanged_.reset();
    wake_.signal();
    // The hub answers each exchange. A rank that loses or does not find the hub sets alone_.
    arrived_.wait(lock, [&] { return exchanged_.has_value() || !alone_.empty(); });
    if (!exchanged_ && alone_ == kHubIsGone) return Error{alone_};
    if (!exchanged_) return Error{"rank {}: {}", config_.rank, alone_};
    if (!exchanged_->failure.empty()) return Error{exchanged_->failure};
    return std::move(exchanged_->texts);
  }

  void note_phase(const std::string& phase) override {
    [[maybe_unused]] const Status s = write_phase(config_, phase);  // a restart does not fail for it
  }

  void stop() override {
    if (!thread_.joinable()) return;
    stop_ = true;
    wake_.signal();
    thread_.join();
  }

 private:
  // The program relies on descriptor numbers: `close(1); open("log")` must return 1, whatever this thread
  // opens meanwhile. So this thread has its own table, without the program's descriptors, which it would keep
  // open. If a sandbox forbids that (Docker's does), or so few descriptors are allowed that its own are among
  // the program's, it shares the table and holds low numbers only for moments.
  void leave_the_programs_descriptors() {
    if (!config_.own_descriptors) return;
    // 2 stays open, for reports.
    if (wake_.fd() >= first_high_descriptor() &&
        leave_descriptor_table([](int fd) { return fd == 2 || fd >= first_high_descriptor(); }))
      DescriptorInHand::set_apart();
    else if (hub_)
      hub_->share_descriptors();
  }

  void run() {
    const Status ended = caught([&] {
      leave_the_programs_descriptors();
      std::vector<pollfd> fds;
      std::vector<Message> in;
      while (!stop_ && !ends()) take_turn(&fds, &in);
      end();
    });
    if (!ended) go_on_without_checkpoints(ended.error());
  }

  void take_turn(std::vector<pollfd>* fds, std::vector<Message>* in) {
    fds->assign({{wake_.fd(), POLLIN, 0}, {requested_.fd(), POLLIN, 0}, {terminated_.fd(), POLLIN, 0}});
    if (hub_)
      hub_->add_to_poll(fds);
    else
      link_->add_to_poll(fds);
    const bool waited = wait(fds);
    const int64_t now = monotonic_us();
    const auto came = [&](const Event& event, size_t index) {
      return ((*fds)[index].revents != 0 || !waited) && event.take();
    };
    if (came(wake_, 0)) {
      next_poll_ = std::min(next_poll_, polled_ + kAlertPeriod);
      alert_until_ = now + kAlert;
    }
    if (stop_) return;
    look_at_sigterm(rank_.take_sigterm(), now);  // before an order resumes the program
    if (hub_) {
      hub_->handle(*fds, kOwnEvents, now);
      if (came(requested_, 1)) hub_->signalled(now);
      hub_->tick(now);
    } else {
      in->clear();
      link_->handle(*fds, kOwnEvents, now, in);
      for (const Message& m : *in) on_message(m, now);
      if (ends()) return;  // rank 0 may be gone; end all the same
      if (!link_->joined()) participant_.abandon(rank_);
      link_->tick(now);
      notice_alone(now);
    }
    look_at_sigterm(came(terminated_, 2), now);  // after any message that this rank has joined
    if (now >= next_look_) observe(now);
    pass_on_exchange(now);
    serve_own_hub(now);
    if (poll_period(now) != 0 && now >= next_poll_) {
      polled_ = now;
      next_poll_ = now + poll_period(now);
      participant_.poll(rank_, &reports_);
      send_reports(monotonic_us());
      serve_own_hub(now);  // handle a resulting order now: it sets next_poll_
    }
    if (hub_) hub_->tell();
  }

  // Of the participant (us), 0: none.
  int64_t poll_period(int64_t now) const {
    const int64_t period = participant_.poll_period();
    return now < alert_until_ ? std::min(period, kAlertPeriod) : period;
  }

  void observe(int64_t now) {
    const Status observed = caught([&] {
      next_look_ = rank_.observe(now);
      if (hub_) hub_->note(rank_.iterations());
    });
    if (!observed) next_look_ = now + 1'000'000;  // there may be memory again
  }

  void end() {
    participant_.abandon(rank_);
    if (outlives_) end_to_outlive(config_.directory);
    if (hub_)
      hub_->close(monotonic_us());
    else
      link_->send(Bye{rank_.met_others()});
    if (participant_.end_status() != 0)
      rank_.leave(participant_.end_status());
    else if (dies_)
      rank_.die(SIGTERM);
  }

  // The control plane has failed, and the program must not die of it. It runs on; a SIGTERM kills it. The
  // others notice that this rank has left, as they would if it had ended.
  void go_on_without_checkpoints(const Error& why) noexcept {
    const auto attempt = [](auto step) { return static_cast<bool>(caught(step)); };
    attempt([&] { participant_.abandon(rank_); });
    const bool said = attempt([&] {
      config_.report(
          formatted("no more checkpoints: rank {}: {}; the program runs on", config_.rank, why.message));
    });
    constexpr char kLine[] = "cropdl: no more checkpoints: out of memory; the program runs on\n";
    if (!said) {
      [[maybe_unused]] const ssize_t n = write(error_stream(), kLine, sizeof kLine - 1);
    }
    if (hub_) attempt([&] { hub_->close(monotonic_us()); });
    hub_.reset();
    link_.reset();
    {
      const std::lock_guard lock(mutex_);
      if (alone_.empty()) alone_ = "out of memory";  // a text that needs none
      arrived_.notify_all();
    }
    if (participant_.end_status() != 0) rank_.leave(participant_.end_status());
    if (dies_ || deadly_from_ != 0) rank_.die(SIGTERM);
    while (!stop_) {
      pollfd fds[] = {{wake_.fd(), POLLIN, 0}, {terminated_.fd(), POLLIN, 0}};
      // Allocates nothing. If the program's limits do not let it wait, it looks away for 100 ms.
      if (poll(fds, 2, -1) < 0 && errno != EINTR) usleep(100'000);
      wake_.take();
      if (terminated_.take()) rank_.die(SIGTERM);
    }
  }

  bool ends() const { return participant_.end_status() != 0 || dies_; }

  // The first SIGTERM requests a last version, even if the program is stopped. Those within kSameSigterm are
  // the same one: `timeout` and a launcher each send it to a process and to its group. A later one kills
  // immediately, even if the program's threads block it.
  void look_at_sigterm(bool got, int64_t now) {
    if (got && deadly_from_ == 0) {
      deadly_from_ = now + kSameSigterm;
      on_sigterm(now);
    }
    if (deadly_from_ == 0 || now < deadly_from_) return;
    deadly_from_ = INT64_MAX;
    rank_.let_sigterm_kill();
    sigset_t second;
    sigemptyset(&second);
    sigaddset(&second, SIGTERM);
    pthread_sigmask(SIG_UNBLOCK, &second, nullptr);
  }

  void on_sigterm(int64_t now) {
    if (hub_ || link_->joined())
      send_to_hub(Terminated{}, now);
    else
      dies_ = true;
  }

  bool wait(std::vector<pollfd>* fds) {
    const std::optional<int64_t> due = hub_ ? hub_->deadline() : link_->deadline();
    int64_t until = std::min({due.value_or(INT64_MAX), outlives_at_, next_look_});
    if (participant_.poll_period() != 0) until = std::min(until, next_poll_);
    if (deadly_from_ != 0) until = std::min(until, deadly_from_);
    return wait_for_any(fds, until);
  }

  // Handles all messages of the rank's own hub, including those that its reports cause.
  void serve_own_hub(int64_t now) {
    if (!hub_) return;
    for (;;) {
      const std::vector<Message> in = hub_->take_for_own_rank();
      if (in.empty()) return;
      for (const Message& m : in) on_message(m, now);
      send_reports(now);
    }
  }

  void on_message(const Message& message, int64_t now) {
    if (const auto* order = std::get_if<Order>(&message)) {
      participant_.receive(rank_, *order, &reports_);
      next_poll_ = 0;                // an order changes what poll() sees
      if (link_) send_reports(now);  // rank 0's hub must not be re-entered
    } else if (std::holds_alternative<Die>(message)) {
      dies_ = true;
    } else if (const auto* all = std::get_if<ExchangeAll>(&message)) {
      const std::lock_guard lock(mutex_);
      if (all->round != round_) return;  // of an exchange whose caller has given up
      exchanged_ = *all;
      arrived_.notify_all();
    }
  }

  void send_to_hub(const Message& message, int64_t now) {
    if (hub_)
      hub_->from_rank(0, message, now);
    else
      link_->send(message);
  }

  void send_reports(int64_t now) {
    for (const Report& r : std::exchange(reports_, {})) send_to_hub(r, now);
  }

  void pass_on_exchange(int64_t now) {
    if (link_ && !link_->joined()) return;
    std::optional<ExchangeMine> mine;
    {
      const std::lock_guard lock(mutex_);
      mine = std::exchange(to_exchange_, std::nullopt);
    }
    if (mine) send_to_hub(*mine, now);
  }

  void notice_alone(int64_t now) {
    if (link_->alone().empty()) return;
    if (now >= outlives_at_) {
      outlives_at_ = INT64_MAX;
      outlives_ = begin_to_outlive(config_.directory, config_.rank, config_.host);
      if (outlives_)
        config_.report(
            formatted("no more checkpoints: rank 0 has ended; rank {} goes on without it", config_.rank));
    }
    {
      const std::lock_guard lock(mutex_);
      if (!alone_.empty()) return;
      alone_ = link_->alone();
      arrived_.notify_all();
    }
    participant_.abandon(rank_);
    if (deadly_from_ != 0) dies_ = true;
    // Not reported yet: the launcher reports the loss of rank 0, or the program is ending.
    if (alone_ == kHubIsGone)
      outlives_at_ = now + static_cast<int64_t>(config_.outlives_seconds * 1e6);
    else
      config_.report(formatted("no checkpoints: rank {}: {}", config_.rank, alone_));
  }

  static constexpr size_t kOwnEvents = 3;
  static constexpr int64_t kSameSigterm = 500'000;  // us
  // us. For so long after a thread woke the agent, the rank's last collective before the cut may end.
  static constexpr int64_t kAlert = 2'000, kAlertPeriod = 100;
  AgentConfig config_;
  LocalRank& rank_;
  std::unique_ptr<Hub> hub_;  // rank 0
  std::optional<Link> link_;  // the others
  Participant participant_;
  std::vector<Report> reports_;
  int64_t next_poll_ = 0;
  int64_t polled_ = 0, alert_until_ = 0;
  int64_t next_look_ = 0;  // next call of LocalRank::observe()
  const Event wake_, requested_, terminated_;
  // From when on a SIGTERM kills the process. 0: no first one yet. INT64_MAX: already unblocked.
  int64_t deadly_from_ = 0;
  bool dies_ = false;                // the process will die of SIGTERM
  int64_t outlives_at_ = INT64_MAX;  // when to report that the program continues without rank 0
  bool outlives_ = false;            // this rank has reported it
  std::atomic<bool> stop_{false};
  std::thread thread_;

  std::mutex mutex_;  // guards the members below; exchange() and agent's thread
  std::condition_variable arrived_;
  uint64_t round_ = 0;
  std::optional<ExchangeMine> to_exchange_;
  std::optional<ExchangeAll> exchanged_;
  std::string alone_;
};

}  // namespace

Result<std::unique_ptr<Agent>> Agent::start(AgentConfig config, LocalRank& rank, VersionSink* sink) {
  if (config.host.empty()) config.host = host_name();
  if (!config.report) config.report = [](const std::string& line) { say("cropdl: " + line); };
  auto loop = std::make_unique<Loop>(std::move(config), rank);
  if (const Status s = loop->begin(sink); !s) return s.error();
  return std::unique_ptr<Agent>(std::move(loop));
}

}  // namespace cropdl::coord
