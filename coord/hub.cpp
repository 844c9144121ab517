// See hub.h.
#include <unistd.h>
#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <ctime>

#include "base/format.h"
#include "base/random.h"
#include "base/say.h"
#include "base/time.h"
#include "coord/hub.h"
#include "coord/job_file.h"
#include "coord/last_version.h"

namespace cropdl::coord {

namespace {

// A request during a start or restart, which may take minutes, is retried this often, so that it succeeds
// soon after the end.
constexpr int64_t kTooEarlyPause = 500'000;  // us
// Without a known version, the cost is estimated from the memory of all ranks, which write to one file
// system: a plain disk or a shared one takes about 500 MB/s. A faster one is measured soon. A slower one
// exceeds the bound with the first version, and the next waits until that is made up for.
constexpr double kAssumedSpeed = 500e6;  // bytes/s
constexpr double kAssumedFixed = 0.05;   // s; the agreement, the store's directories and fsyncs

constexpr int64_t kAskAgain = 1'000'000;  // us; after a refused last version

constexpr int64_t kMetricsEvery = 15'000'000;  // us; Prometheus scrapes every 15 s to 60 s
constexpr int64_t kDrawEvery = 1'000'000;      // us
constexpr int64_t kLookForStopped = 500'000;   // us
constexpr int64_t kAcceptAgain = 200'000;      // us; after a lack of descriptors
constexpr int64_t kHelloWithin = 5'000'000;    // us; then a silent connection is dropped

double in_seconds(int64_t us) { return static_cast<double>(us) * 1e-6; }
int64_t in_us(double seconds) {
  constexpr double kFar = 1e12;  // for a max_overhead of nearly 0
  return static_cast<int64_t>(std::ceil((seconds < kFar ? seconds : kFar) * 1e6));
}

}  // namespace

Result<std::unique_ptr<Hub>> Hub::open(const AgentConfig& config, VersionSink* sink,
                                       std::function<uint64_t()> memory, int64_t now) {
  JobFile job;
  job.token = random_hex(16);
  job.run_id = config.run_id;
  job.pid = getpid();
  job.host = config.host;
  job.ranks = config.ranks;
  job.started = utc_now();
  Result<std::unique_ptr<Listener>> listener = transport_of_hubs().listen();
  if (!listener) return listener.error();
  job.address = (*listener)->address();
  for (uint32_t r = 0; r < config.ranks; ++r) remove_remote_rank(config.directory, r);
  end_to_outlive(config.directory);
  if (const Status s = write_job_file(config.directory, job); !s)
    return Error{"checkpoints are not possible: " + s.error().message};
  std::unique_ptr<Hub> hub(
      new Hub(config, sink, std::move(memory), std::move(*listener), std::move(job), now));
  hub->tell();
  if (config.trace_phase) {
    if (const Status s = replace_file(config.directory + "/phase", "idle\n"); !s) return s.error();
  }
  return hub;
}

Hub::Hub(const AgentConfig& config, VersionSink* sink, std::function<uint64_t()> memory,
         std::unique_ptr<Listener> listener, JobFile job, int64_t now)
    : config_(config),
      sink_(sink),
      listener_(std::move(listener)),
      job_(std::move(job)),
      coordinator_(config.ranks, config.limits),
      ranks_(config.ranks),
      joined_(config.ranks),
      memory_(std::move(memory)),
      began_(now),
      terminated_(config.ranks) {
  const Schedule& schedule = config_.schedule;
  if (schedule.kind == Schedule::Kind::kEvery) next_interval_ = now + in_us(schedule.seconds);
  if (schedule.kind == Schedule::Kind::kAutomatic) {
    policy_.emplace(IntervalPolicy::Settings{schedule.max_overhead, schedule.mtbf, config_.shortest_interval},
                    in_seconds(now), kAssumedFixed);
    next_interval_ = in_us(policy_->due());
  }
  joined_[0] = true;
  if (config_.progress && !config_.quiet) progress_.emplace(error_stream());
  if (progress_ && !progress_->can_draw()) progress_.reset();
  if (progress_)
    config_.report = [this, report = config_.report](const std::string& line) {
      progress_->erase();
      report(line);
    };
  if (!config_.metrics.empty())
    metrics_file_.emplace(config_.metrics, [this](const std::string& line) { say(line); });
  metrics_.job = config_.job;
  metrics_.store = config_.directory;
  write_metrics(now);
  Actions out;
  coordinator_.joined(0, now, &out);
  carry_out(std::move(out), now);
  begin_to_watch_the_limit(now);
}

void Hub::add_to_poll(std::vector<pollfd>* fds) {
  // poll(2) ignores negative descriptors.
  fds->push_back({accept_again_ == 0 ? listener_->fd() : -1, POLLIN, 0});
  fds->push_back({publisher_.fd(), POLLIN, 0});
  for (const Connection& c : connections_) {
    fds->push_back({c.channel.fd(), static_cast<short>(POLLIN | (c.channel.wants_write() ? POLLOUT : 0)), 0});
    fds->push_back({c.process.fd(), POLLIN, 0});
  }
}

void Hub::handle(const std::vector<pollfd>& fds, size_t first, int64_t now) {
  // In the order of add_to_poll(). During this loop connections are only appended or marked broken.
  size_t at = first + 2;
  for (Connection& c : connections_) {
    if (at + 1 >= fds.size()) break;
    const short events = fds[at].revents, ended = fds[at + 1].revents;
    at += 2;
    if (events != 0) serve(c, events, now);
    if (ended != 0 && !c.broken) {
      c.broken = true;
      c.why_broken = formatted("is gone: its process (pid {}) died", c.pid);
    }
  }
  if (fds[first].revents != 0) accept_all(now);
  if (fds[first + 1].revents != 0) {
    Actions out;
    take_from_publisher(now, &out);
    carry_out(std::move(out), now);
  }
  drop_broken(now);
}

void Hub::accept_all(int64_t now) {
  for (;;) {
    bool no_room = false;
    std::unique_ptr<Stream> stream = listener_->accept(&no_room);
    if (no_room) accept_again_ = now + kAcceptAgain;
    if (!stream) return;
    const PeerProcess peer = stream->peer();
    if (peer.other_user && !peer.administrator) continue;  // root may checkpoint any user's job
    Connection& c = connections_.emplace_back(std::move(stream));
    c.pid = peer.pid;
    c.since = now;
  }
}

void Hub::serve(Connection& c, short events, int64_t now) {
  if ((events & POLLOUT) != 0 && !c.channel.flush()) c.broken = true;
  std::vector<std::string> messages;
  const bool open = c.channel.receive(&messages);
  for (const std::string& bytes : messages) {
    if (c.broken) break;
    if (const std::optional<Message> m = message_from_bytes(bytes))
      on_message(c, *m, now);
    else
      c.broken = true;
  }
  if (!open) c.broken = true;
}

void Hub::on_message(Connection& c, const Message& message, int64_t now) {
  if (const auto* m = std::get_if<Hello>(&message)) return greet(c, *m, now);
  if (!c.known) {
    c.broken = true;
    return;
  }
  Actions out;
  if (c.rank != kNoRank) {
    if (const auto* m = std::get_if<Report>(&message)) coordinator_.receive(c.rank, *m, now, &out);
    if (const auto* m = std::get_if<ExchangeMine>(&message)) gather(c.rank, *m, now);
    if (std::holds_alternative<Terminated>(message)) got_sigterm(c.rank, now);
    if (std::holds_alternative<Bye>(message)) {
      c.broken = true;
      c.why_broken = "has ended its program";
    }
  } else if (const auto* ask = std::get_if<AskCheckpoint>(&message)) {
    on_request(c, ask->last, now, &out);
  } else if (std::holds_alternative<AskStatus>(message)) {
    StatusIs status;
    status.phase = phase_name(coordinator_.phase());
    status.ranks = config_.ranks;
    status.joined = alive();
    status.last_version = last_version_;
    status.last_line = last_line_;
    status.iteration = iterations_.complete;
    status.iteration_us = iterations_.us;
    c.broken = !c.channel.send(message_bytes(status));
  }
  carry_out(std::move(out), now);
}

void Hub::on_request(Connection& c, bool last, int64_t now, Actions* out) {
  look_for_remote_ranks(now);
  if (!last && !coordinator_.request(now, out)) {
    c.broken = !c.channel.send(message_bytes(Rejected{"a checkpoint of this job is already being taken"}));
    return;
  }
  c.broken = !c.channel.send(message_bytes(Accepted{}));
  c.waits = true;
  if (last && last_for_ == LastFor::kNothing) ask_for_last_version(LastFor::kCommand, now);
  if (last && !coordinator_.busy()) return;  // it was refused immediately
  asked_by_client_ = true;
  asked_at_ = now;
  say_at_ = now + config_.limits.say_after;
}

void Hub::greet(Connection& c, const Hello& hello, int64_t now) {
  std::string why;
  if (hello.wire_version != kWireVersion)
    why = "it was built from another version of CropDL than rank 0";
  else if (hello.token != job_.token || c.known)
    why = "it does not belong to this job";
  else if (hello.rank != kNoRank && hello.run_id != job_.run_id)
    why = "it belongs to another launch";
  else if (hello.rank != kNoRank && hello.rank >= config_.ranks)
    why = "this job has fewer ranks";
  else if (hello.rank != kNoRank && joined_[hello.rank])
    why = "there is such a rank already";
  if (!why.empty()) {
    c.channel.send(message_bytes(Rejected{why}));
    c.broken = true;
    return;
  }
  c.known = true;
  c.rank = hello.rank;
  c.broken = !c.channel.send(message_bytes(Welcome{}));
  if (c.rank == kNoRank) return;
  c.process = c.channel.stream().watch();
  ranks_[c.rank] = &c;
  joined_[c.rank] = true;
  Actions out;
  coordinator_.joined(c.rank, now, &out);
  carry_out(std::move(out), now);
}

void Hub::drop_broken(int64_t now) {
  for (bool again = true; again;) {  // dropping a connection may break a write to another
    again = false;
    for (auto c = connections_.begin(); c != connections_.end(); ++c) {
      if (!c->broken) continue;
      const uint32_t rank = c->rank;
      const std::string why = c->why_broken.empty()
                                  ? formatted("is gone: its process (pid {}) died or left the job", c->pid)
                                  : c->why_broken;
      connections_.erase(c);
      again = true;
      if (rank == kNoRank) break;
      ranks_[rank] = nullptr;
      fail_exchanges(formatted("rank {} {}", rank, why));
      Actions out;
      coordinator_.lost(rank, why, now, &out);
      carry_out(std::move(out), now);
      break;
    }
  }
}

void Hub::tick(int64_t now) {
  if (next_end_ != 0 && now >= next_end_) look_after_last_version(now);
  if (next_interval_ != 0 && now >= next_interval_) at_interval(now);
  if (again_at_ != 0 && now >= again_at_) again_at_ = 0, request(now);
  for (Connection& c : connections_)
    if (!c.known && now >= c.since + kHelloWithin) c.broken = true;
  if (now >= accept_again_) accept_again_ = 0;
  Actions out;
  coordinator_.tick(now, &out);
  carry_out(std::move(out), now);
  look_for_stopped(now);
  say_what_is_awaited(now);
  look_after_exchanges(now);
  drop_broken(now);
  if (metrics_file_ && now >= next_metrics_ && !coordinator_.busy()) write_metrics(now);
  if (progress_ && now >= next_draw_) draw_progress(now);
}

uint32_t Hub::alive() const {
  return 1 + static_cast<uint32_t>(std::count_if(ranks_.begin(), ranks_.end(),
                                                 [](const Connection* c) { return c != nullptr; }));
}

void Hub::draw_progress(int64_t now) {
  next_draw_ = now + kDrawEvery;
  bring_metrics_up_to_date(now);
  progress_->draw(metrics_, ::time(nullptr));
}

void Hub::bring_metrics_up_to_date(int64_t now) {
  metrics_.ranks = config_.ranks;
  metrics_.joined = alive();
  metrics_.run_seconds = in_seconds(now - began_);
  metrics_.next_version.reset();
  if (metrics_.up && next_interval_ != 0)
    metrics_.next_version = in_seconds(std::max<int64_t>(0, next_interval_ - now));
  metrics_.iteration = iterations_.complete;
  metrics_.iteration_seconds = in_seconds(static_cast<int64_t>(iterations_.us));
}

void Hub::write_metrics(int64_t now) {
  if (!metrics_file_) return;
  next_metrics_ = now + kMetricsEvery;
  bring_metrics_up_to_date(now);
  metrics_file_->write(metrics_);
}

std::optional<int64_t> Hub::deadline() const {
  std::optional<int64_t> first = coordinator_.deadline();
  const auto consider = [&](int64_t t) { first = std::min(first.value_or(t), t); };
  if (next_interval_ != 0) consider(next_interval_);
  if (next_end_ != 0) consider(next_end_);
  if (again_at_ != 0) consider(again_at_);
  if (accept_again_ != 0) consider(accept_again_);
  if (coordinator_.busy()) consider(next_look_);
  if (metrics_file_ && !coordinator_.busy()) consider(next_metrics_);
  if (progress_) consider(next_draw_);
  if (coordinator_.busy() && asked_by_client_) consider(say_at_);
  for (const auto& [round, gathering] : exchanges_) {
    if (std::count(joined_.begin(), joined_.end(), false) != 0) consider(gathering.give_up_at);
    consider(gathering.say_at);
  }
  for (const Connection& c : connections_) {
    if (!c.known) consider(c.since + kHelloWithin);
    if (c.broken) consider(0);
  }
  return first;
}

void Hub::at_interval(int64_t now) {
  if (!policy_) {
    // Intervals that pass during a checkpoint do not queue requests.
    next_interval_ = now + in_us(config_.schedule.seconds);
    return request(now);
  }
  // The program may have grown since the last estimate.
  if (!policy_->measured()) policy_->expect(expected_cost());
  next_interval_ = in_us(policy_->due());
  if (now < next_interval_) return;
  // finished() sets the next one, even if this request is refused because a version is in progress.
  next_interval_ = 0;
  request(now);
}

// The first version's cost.
double Hub::expected_cost() const {
  if (config_.former_cost > 0) return config_.former_cost;
  return kAssumedFixed + static_cast<double>(memory_()) * config_.ranks / kAssumedSpeed;
}

double Hub::predicted_cost() const {
  if (policy_ && policy_->measured()) return policy_->predicted_cost();
  return last_cost_ > 0 ? last_cost_ : expected_cost();
}

int64_t Hub::last_version_at() const {
  return static_cast<int64_t>(coord::last_version_at(in_seconds(began_), in_seconds(limit_), predicted_cost(),
                                                     in_seconds(static_cast<int64_t>(iterations_.us))) *
                              1e6);
}

void Hub::begin_to_watch_the_limit(int64_t now) {
  if (config_.time_limit == 0) return;
  limit_ = now + in_us(std::max(config_.time_limit, 0.0));
  if (now < last_version_at()) {
    next_end_ = now;
    return;
  }
  say(formatted(
      "the time limit is {:.0f} s from now, which is too short for a last version: one may take {:.2g} s; "
      "none is taken for it",
      in_seconds(limit_ - now), predicted_cost()));
  limit_ = 0;
}

void Hub::look_after_last_version(int64_t now) {
  next_end_ = 0;
  if (is_terminated())
    ask_for_last_version(LastFor::kSigterm, now);
  else
    at_limit(now);
}

// Programs grow, so the moment moves: check again at half of the remaining time.
void Hub::at_limit(int64_t now) {
  constexpr int64_t kNear = 1'000'000;  // us
  if (now < limit_) {
    const int64_t at = last_version_at();
    next_end_ = now >= at ? limit_ : at - now < 2 * kNear ? at : now + (at - now) / 2;
    if (now >= at && last_for_ == LastFor::kNothing) ask_for_last_version(LastFor::kTimeLimit, now);
    return;
  }
  limit_ = 0;
  if (last_for_ == LastFor::kCommand) return;  // it continues; the job ends after it
  const bool is_under_way = last_for_ != LastFor::kNothing;
  if (is_under_way) why_no_last_ = coordinator_.waits_for();
  say(formatted("no last version was taken before the time limit: {}; the program goes on", why_no_last_));
  if (!is_under_way) return;
  coordinator_.end_with(0);
  Actions out;
  coordinator_.withdraw("the time limit has passed", now, &out);
  carry_out(std::move(out), now);
  last_for_ = LastFor::kNothing;  // images in progress become an ordinary version
}

// A version in progress becomes the last: the program does not run between its cut and its end.
void Hub::ask_for_last_version(LastFor why, int64_t now) {
  last_for_ = why;
  look_for_remote_ranks(now);
  Actions out;
  began_for_it_ = coordinator_.request(now, &out);
  if (began_for_it_) asked_by_client_ = false;
  coordinator_.end_with(kTryAgainLater);
  carry_out(std::move(out), now);
}

void Hub::got_sigterm(uint32_t rank, int64_t now) {
  terminated_[rank] = true;
  limit_ = next_end_ = 0;
  if (!someone_lost_.empty()) {  // the launcher ends the other ranks
    if (!std::exchange(told_of_loss_, true))
      config_.report(
          formatted("no last version was taken at SIGTERM: {}; the job dies of it", someone_lost_));
    return let_die();
  }
  const LastFor former = std::exchange(last_for_, LastFor::kSigterm);
  if (former == LastFor::kNothing) ask_for_last_version(LastFor::kSigterm, now);
}

bool Hub::is_terminated() const {
  return std::find(terminated_.begin(), terminated_.end(), true) != terminated_.end();
}

// The launcher decides on the other ranks, as natively.
void Hub::let_die() {
  for (uint32_t r = 0; r < config_.ranks; ++r)
    if (terminated_[r]) to_rank(r, Die{});
  terminated_.assign(config_.ranks, false);
}

const char* Hub::occasion(LastFor why) {
  return why == LastFor::kSigterm     ? "at SIGTERM"
         : why == LastFor::kTimeLimit ? "before the time limit"
                                      : "by `cropdl checkpoint --last`";
}

// The ranks get End after this returns; then the launcher may give rank 0 little time. So old versions are
// only renamed: the ender of the job may not wait until gigabytes are removed.
void Hub::last_version_is_over(const Outcome& outcome, int64_t now) {
  const LastFor why = std::exchange(last_for_, LastFor::kNothing);
  if (outcome.published) {
    next_end_ = next_interval_ = 0;
    remove_job_file(config_.directory);
    tell_what_stays(sink_->set_aside());
    return config_.report(
        formatted("version {} was taken {}; the job ends with status {}, and cropdl-restart {} continues it",
                  outcome.version, occasion(why), kTryAgainLater, config_.directory));
  }
  if (why == LastFor::kCommand) {  // the client has received the reason
    coordinator_.end_with(0);
    why_no_last_ = outcome.line;
    if (limit_ != 0) next_end_ = now;
    return;
  }
  if (why == LastFor::kSigterm) {
    if (!began_for_it_) {
      next_end_ = now;  // the cause of that failure may not apply to a new request
      return;
    }
    config_.report(formatted("no last version was taken at SIGTERM: {}; the job dies of it", outcome.line));
    return let_die();
  }
  if (limit_ == 0) return;
  // A refusal may pass. With too little time left, the next check reports why there is no version.
  why_no_last_ = outcome.line;
  const bool again = now + kAskAgain + in_us(predicted_cost()) < limit_;
  next_end_ = again ? now + kAskAgain : now;
  if (!again) limit_ = now;
}

// Every version counts for the automatic interval, regardless of its requester.
void Hub::learn(const Outcome& outcome, int64_t now) {
  int64_t earliest = 0;
  if (outcome.too_early)
    earliest = now + kTooEarlyPause;
  else if (outcome.published)
    policy_->taken(in_seconds(now), outcome.held_seconds);
  else
    policy_->failed(in_seconds(now), outcome.held_seconds);
  next_interval_ = std::max(earliest, in_us(policy_->due()));
  if (!outcome.published) return;
  const double interval = policy_->interval();
  if (interval <= 2 * told_interval_ && told_interval_ <= 2 * interval) return;
  told_interval_ = interval;
  if (!config_.quiet) say(policy_->reason());
}

void Hub::request(int64_t now) {
  look_for_remote_ranks(now);
  Actions out;
  if (!coordinator_.request(now, &out)) return;
  asked_by_client_ = false;
  carry_out(std::move(out), now);
}

void Hub::signalled(int64_t now) {
  asked_by_signal_ = true;
  request(now);
}

void Hub::tell() {
  for (const std::string& line : std::exchange(lines_, {})) config_.report(line);
}

void Hub::from_own_rank(const Message& message, int64_t now) {
  Actions out;
  if (const auto* m = std::get_if<Report>(&message)) coordinator_.receive(0, *m, now, &out);
  if (const auto* m = std::get_if<ExchangeMine>(&message)) gather(0, *m, now);
  carry_out(std::move(out), now);
}

void Hub::to_rank(uint32_t rank, const Message& message) {
  if (rank == 0) {
    for_own_rank_.push_back(message);
  } else if (Connection* c = ranks_[rank]; c != nullptr && !c->broken) {
    c->broken = !c->channel.send(message_bytes(message));
  }
}

void Hub::carry_out(Actions actions, int64_t now) {
  for (size_t i = 0; i < actions.size(); ++i) {
    const Action a = actions[i];  // a copy: the calls below append to `actions`
    if (const auto* send = std::get_if<SendOrder>(&a)) {
      to_rank(send->rank, send->order);
    } else if (std::holds_alternative<BeginVersion>(a)) {
      const Result<std::string> directory = sink_->begin();
      if (directory)
        coordinator_.version_begun(*directory, now, &actions);
      else
        coordinator_.sink_failed(directory.error().message, now, &actions);
    } else if (const auto* publish = std::get_if<Publish>(&a)) {
      memory_written_ = 0;
      for (const ImageSummary& image : publish->images) memory_written_ += image.memory;
      publisher_.publish(sink_, publish->images, publish->stall_seconds);
    } else if (std::holds_alternative<Discard>(a)) {
      publisher_.discard(sink_);
    } else if (const auto* f = std::get_if<Finished>(&a)) {
      finished(f->outcome, now);
    }
  }
  trace_phase();
}

void Hub::take_from_publisher(int64_t now, Actions* out) {
  while (const auto ended = publisher_.take()) {
    const auto* published = std::get_if<Result<uint64_t>>(&*ended);
    if (const auto* tidied = std::get_if<Publisher::Tidied>(&*ended))
      tell_what_stays(tidied->status);
    else if (published == nullptr)
      coordinator_.discarded(now, out);
    else if (*published)
      coordinator_.published(**published, now, out);
    else
      coordinator_.sink_failed(published->error().message, now, out);
  }
}

// Reports the same error once: tidying may fail after each version.
void Hub::tell_what_stays(const Status& tidied) {
  if (tidied || tidied.error().message == last_untidy_) return;
  last_untidy_ = tidied.error().message;
  say(last_untidy_);
}

void Hub::finished(Outcome outcome, int64_t now) {
  // A rank that has not joined by now never will.
  const bool all_joined = std::find(joined_.begin(), joined_.end(), false) == joined_.end();
  if (!all_joined && now >= began_ + in_us(config_.rendezvous_seconds)) outcome.too_early = false;
  again_at_ = outcome.too_early && asked_by_signal_ ? now + kTooEarlyPause : 0;
  asked_by_signal_ = asked_by_signal_ && outcome.too_early;
  const bool ends = outcome.published && last_for_ != LastFor::kNothing;
  if (outcome.published) {
    last_version_ = outcome.version;
    last_cost_ = outcome.held_seconds;
    if (!ends) publisher_.tidy(sink_);
  }
  if (policy_ && !ends) learn(outcome, now);
  last_line_ = outcome.line;
  metrics_.held_seconds += outcome.held_seconds;
  if (outcome.published) {
    ++metrics_.versions;
    metrics_.last_version = outcome.version;
    metrics_.last_version_time = ::time(nullptr);
    metrics_.last_version_bytes = outcome.bytes;
    metrics_.last_version_memory = memory_written_;
    metrics_.last_version_stall = outcome.stall_seconds;
  } else if (!outcome.too_early) {
    ++metrics_.failures;
  }
  if (!outcome.too_early) next_metrics_ = now + 1;  // after the Resume orders
  for (Connection& c : connections_)
    if (c.waits) {
      c.waits = false;
      c.broken = !c.channel.send(message_bytes(Done{outcome}));
    }
  if (last_for_ != LastFor::kNothing) return last_version_is_over(outcome, now);
  if (!asked_by_client_ && outcome.too_early) {  // not a client's request: retry when the ranks are ready
    if (next_interval_ != 0) next_interval_ = std::min(next_interval_, now + kTooEarlyPause);
    return;
  }
  if (!asked_by_client_ && outcome.line != last_reported_) {
    if (!outcome.line.empty() && !closes_) say(outcome.line);
    last_reported_ = outcome.line;
  }
}

void Hub::look_for_remote_ranks(int64_t now) {
  for (uint32_t r = 1; r < config_.ranks; ++r) {
    if (joined_[r]) continue;
    const std::string host = remote_rank_host(config_.directory, config_.run_id, r);
    if (host.empty()) continue;
    Actions out;
    coordinator_.lost(r,
                      formatted("runs on {} and rank 0 on {}; checkpoints need all ranks on one node in this "
                                "version; the program runs",
                                host, config_.host),
                      now, &out);
    carry_out(std::move(out), now);
  }
}

// An attempt has its own bounds, except while images are written, which may take any time.
void Hub::look_for_stopped(int64_t now) {
  if (!coordinator_.busy()) {
    next_look_ = 0;
    for (Connection& c : connections_) c.stopped_since = 0;
    return;
  }
  if (now < next_look_) return;
  next_look_ = now + kLookForStopped;
  for (Connection& c : connections_) {
    if (c.rank == kNoRank || c.broken) continue;
    if (!c.channel.stream().peer_is_stopped()) {
      c.stopped_since = 0;
      continue;
    }
    if (c.stopped_since == 0) c.stopped_since = now;
    if (now < c.stopped_since + config_.limits.stopped_bound) continue;
    Actions out;
    coordinator_.stands_still(
        c.rank,
        formatted("has been stopped for {:.3g} s (SIGSTOP, or a debugger); let its process "
                  "go on (kill -CONT {}) and try again",
                  static_cast<double>(now - c.stopped_since) * 1e-6, c.pid),
        now, &out);
    carry_out(std::move(out), now);
  }
}

void Hub::say_what_is_awaited(int64_t now) {
  if (!coordinator_.busy() || !asked_by_client_ || now < say_at_) return;
  say_at_ = now + config_.limits.say_again_after;
  const std::string line = formatted("waiting for {:.0f} s: {}", static_cast<double>(now - asked_at_) * 1e-6,
                                     coordinator_.waits_for());
  for (Connection& c : connections_)
    if (c.waits && !c.broken) c.broken = !c.channel.send(message_bytes(Waiting{line}));
}

void Hub::gather(uint32_t rank, const ExchangeMine& m, int64_t now) {
  if (!someone_lost_.empty()) return to_rank(rank, ExchangeAll{m.round, {}, someone_lost_});
  Gathering& gathering = exchanges_[m.round];
  if (gathering.texts.empty()) {
    gathering.began = now;
    gathering.give_up_at = now + static_cast<int64_t>(config_.rendezvous_seconds * 1e6);
    gathering.say_at = now + static_cast<int64_t>(config_.say_seconds * 1e6);
  }
  gathering.texts[rank] = m.text;
  if (gathering.texts.size() < config_.ranks) return;
  ExchangeAll all{m.round, {}, ""};
  for (auto& [r, text] : gathering.texts) all.texts.push_back(std::move(text));
  exchanges_.erase(m.round);
  for (uint32_t r = 0; r < config_.ranks; ++r) to_rank(r, all);
}

void Hub::fail_exchanges(const std::string& why) {
  if (someone_lost_.empty()) someone_lost_ = why;
  for (const auto& [round, gathering] : std::exchange(exchanges_, {}))
    for (const auto& [rank, text] : gathering.texts) to_rank(rank, ExchangeAll{round, {}, why});
}

// Waits for a joined rank as long as it lives, since only it knows how much it has to load, and reports that
// from time to time. A rank that has not joined may never come.
void Hub::look_after_exchanges(int64_t now) {
  char text[120];
  for (auto& [round, gathering] : exchanges_) {
    for (uint32_t r = 0; r < config_.ranks; ++r)
      if (!joined_[r] && now >= gathering.give_up_at) {
        std::snprintf(text, sizeof text, "rank %u has not come within %g s", r, config_.rendezvous_seconds);
        return fail_exchanges(text);
      }
    if (now < gathering.say_at) continue;
    gathering.say_at = now + static_cast<int64_t>(config_.say_seconds * 1e6);
    uint32_t first = config_.ranks, missing = 0;
    for (uint32_t r = 0; r < config_.ranks; ++r)
      if (gathering.texts.count(r) == 0 && missing++ == 0) first = r;
    const std::string others = missing > 1 ? formatted(" and {} more", missing - 1) : "";
    const Connection* c = ranks_[first];
    std::snprintf(text, sizeof text,
                  "waiting for rank %u (pid %d)%s for %.0f s: still loading or starting its MPI", first,
                  c != nullptr ? c->pid : job_.pid, others.c_str(),
                  static_cast<double>(now - gathering.began) * 1e-6);
    say(text);
  }
}

void Hub::trace_phase() {
  if (!config_.trace_phase || traced_ == coordinator_.phase()) return;
  traced_ = coordinator_.phase();
  // Tracing is for tests; a full disk must not fail the checkpoint.
  [[maybe_unused]] const Status s =
      replace_file(config_.directory + "/phase", std::string(phase_name(traced_)) + "\n");
}

void Hub::close(int64_t now) {
  Actions out;
  coordinator_.lost(0, "has ended its program", now, &out);  // first: no waiting request may begin now
  closes_ = !asked_by_signal_;
  carry_out(std::exchange(out, {}), now);
  closes_ = false;
  publisher_.wait();
  take_from_publisher(now, &out);
  // Without rank 0, images in progress cannot become a version; their writers end by themselves.
  if (coordinator_.busy() && coordinator_.phase() == Phase::kWriting) out.push_back(Discard{});
  carry_out(std::move(out), now);
  // Otherwise the process's end would leave a partial version for the next start.
  publisher_.wait();
  publisher_.wait_for_tidy();
  connections_.clear();
  tell();
  if (progress_) progress_->erase();
  metrics_.up = false;
  write_metrics(monotonic_us());
  for (uint32_t r = 0; r < config_.ranks; ++r) remove_remote_rank(config_.directory, r);
  remove_job_file(config_.directory);
}

}  // namespace cropdl::coord
