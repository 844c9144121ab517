// See hub.h: connections, messages, the coordinator's actions, and lines for people.
#include "coord/hub.h"

#include <unistd.h>

#include "base/caught.h"
#include "base/format.h"
#include "base/random.h"
#include "base/say.h"
#include "base/time.h"

namespace cropdl::coord {

constexpr int64_t kAcceptAgain = 200'000;     // us; after a lack of descriptors
constexpr int64_t kHelloWithin = 60'000'000;  // us; then a silent connection is dropped
constexpr int64_t kDrawEvery = 1'000'000;     // us
constexpr int kMostAccepted = 64;             // at once: strangers may connect as fast as they are dropped

Result<std::unique_ptr<Hub>> Hub::open(const AgentConfig& config, VersionSink* sink,
                                       std::function<uint64_t()> memory, int64_t now) {
  Result<Listener> listener = Listener::open();
  if (!listener) return listener.error();
  JobFile job{.address = listener->address(),
              .token = random_hex(16),
              .run_id = config.run_id,
              .pid = getpid(),
              .host = config.host,
              .ranks = config.ranks,
              .started = utc_now()};
  for (uint32_t r = 0; r < config.ranks; ++r) remove_remote_rank(config.directory, r);
  end_to_outlive(config.directory);
  if (const Status s = write_job_file(config.directory, job); !s)
    return Error{"checkpoints are not possible: " + s.error().message};
  std::unique_ptr<Hub> hub(
      new Hub(config, sink, std::move(memory), std::move(*listener), std::move(job), now));
  hub->tell();
  if (const Status s = write_phase(config, "idle"); !s) return s.error();
  return hub;
}

Hub::Hub(const AgentConfig& config, VersionSink* sink, std::function<uint64_t()> memory, Listener listener,
         JobFile job, int64_t now)
    : config_(config),
      sink_(sink),
      listener_(std::move(listener)),
      job_(std::move(job)),
      coordinator_(config.ranks, config.limits),
      ranks_(config.ranks),
      joined_(config.ranks),
      left_alone_(config.ranks),
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
  take_step(now, &Coordinator::joined, 0);
  begin_to_watch_the_limit(now);
}

void Hub::add_to_poll(std::vector<pollfd>* fds) {
  // poll(2) ignores negative descriptors.
  fds->push_back({accept_again_ == 0 ? listener_.fd() : -1, POLLIN, 0});
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
    if (events != 0 || ended != 0) serve(c, events, now);  // what it sent before it ended counts
    if (ended != 0 && !c.broken) {
      c.broken = true;
      c.why_broken = formatted("is gone: its process (pid {}) died", c.pid);
    }
  }
  if (fds[first].revents != 0) {
    const Status accepted = caught([&] { accept_waiting(now); });
    if (!accepted) accept_again_ = now + kAcceptAgain;
  }
  if (fds[first + 1].revents != 0) take_from_publisher(now);
  drop_broken(now);
}

void Hub::accept_waiting(int64_t now) {
  for (int i = 0; i < kMostAccepted; ++i) {
    bool no_room = false;
    std::unique_ptr<Stream> stream = listener_.accept(&no_room);
    if (no_room) accept_again_ = now + kAcceptAgain;
    if (no_room && !std::exchange(told_no_room_, true))
      say("rank 0 has no descriptor or memory left for the connection of a rank or a command; with many "
          "ranks, raise ulimit -n to more than twice their number");
    if (!stream) return;
    const ucred peer = stream->peer();
    if (peer.uid != geteuid() && peer.uid != 0) continue;  // root may checkpoint any user's job
    Connection& c = connections_.emplace_back(std::move(stream));
    c.pid = peer.pid;
    c.since = now;
  }
}

// A lack of memory breaks this connection only, unless it comes up while the agreement is changing.
void Hub::serve(Connection& c, short events, int64_t now) {
  if ((events & POLLOUT) != 0 && !c.channel.flush()) c.broken = true;
  std::vector<Message> messages;
  bool open = false;
  const Status received = caught([&] {
    std::vector<std::string> frames;
    open = c.channel.receive(&frames, c.known ? kLongestFrame : kLongestFirstFrame);
    for (const std::string& bytes : frames) {
      std::optional<Message> m = message_from_bytes(bytes);
      open = open && m.has_value();
      if (!m) break;
      messages.push_back(std::move(*m));
    }
  });
  for (const Message& m : messages) {
    if (c.broken) break;
    on_message(c, m, now);
  }
  if (!received) return break_off(c);
  if (!open) c.broken = true;
}

void Hub::send(Connection& c, const Message& message) {
  const Status sent = caught([&] { send(c, frame_of(message_bytes(message))); });
  if (!sent) break_off(c);
}

void Hub::send(Connection& c, const Frame& frame) {
  const Status sent = caught([&] {
    if (!frame) c.why_broken = "was left, because rank 0's message to it is longer than 64 MiB";
    if (!c.channel.send(frame)) c.broken = true;
  });
  if (!sent) break_off(c);
}

void Hub::break_off(Connection& c) {
  c.broken = true;
  [[maybe_unused]] const Status said =
      caught([&] { c.why_broken = "was left, because rank 0 has no memory left for its messages"; });
}

void Hub::on_message(Connection& c, const Message& message, int64_t now) {
  if (const auto* m = std::get_if<Hello>(&message)) return greet(c, *m, now);
  if (!c.known) {
    c.broken = true;
    return;
  }
  if (const auto* m = std::get_if<Bye>(&message); m != nullptr && c.rank != kNoRank) {
    // Immediately: the next connection may be that of the rank's next program.
    const uint32_t rank = std::exchange(c.rank, kNoRank);
    c.broken = true;
    left_alone_[rank] = !m->met_others && !config_.restart;
    lose(rank, "has ended its program", now);
  } else if (c.rank != kNoRank) {
    from_rank(c.rank, message, now);
  } else if (const auto* ask = std::get_if<AskCheckpoint>(&message)) {
    on_request(c, ask->last, now);
  } else if (std::holds_alternative<AskStatus>(message)) {
    send(c, StatusIs{phase_name(coordinator_.phase()), config_.ranks, alive(), metrics_.last_version,
                     last_line_, iterations_.complete, iterations_.us});
  }
}

void Hub::on_request(Connection& c, bool last, int64_t now) {
  look_for_remote_ranks(now);
  Actions out;
  if (!last && !coordinator_.request(now, &out, true))
    return send(c, Rejected{"a checkpoint of this job is already being taken"});
  send(c, Accepted{});
  c.waits = true;
  if (last && last_for_ == LastFor::kNothing) ask_for_last_version(LastFor::kCommand, now);
  if (last && !coordinator_.busy()) return;  // it was refused immediately
  asked_by_client_ = true;
  asked_at_ = now;
  say_at_ = now + config_.limits.say_after;
  carry_out(std::move(out), now);
}

void Hub::tick(int64_t now) {
  began_to_tick_ = true;
  if (next_end_ != 0 && now >= next_end_) {
    next_end_ = 0;
    if (std::ranges::count(terminated_, true) != 0)
      ask_for_last_version(LastFor::kSigterm, now);
    else
      at_limit(now);
  }
  if (next_interval_ != 0 && now >= next_interval_) at_interval(now);
  if (again_at_ != 0 && now >= again_at_) again_at_ = 0, request(now);
  for (Connection& c : connections_) {
    if (c.known || c.broken || now < c.since + kHelloWithin) continue;
    serve(c, 0, now);  // its Hello may have come since poll(2)
    if (!c.known) c.broken = true;
  }
  if (now >= accept_again_) accept_again_ = 0;
  take_step(now, &Coordinator::tick);
  look_for_stopped(now);
  say_what_is_awaited(now);
  look_after_exchanges(now);
  drop_broken(now);
  if (metrics_file_ && now >= next_metrics_ && !coordinator_.busy()) write_metrics(now);
  if (progress_ && now >= next_draw_) {
    next_draw_ = now + kDrawEvery;
    bring_metrics_up_to_date(now);
    progress_->draw(metrics_, ::time(nullptr));
  }
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
    if (!all_joined()) consider(gathering.give_up_at);
    consider(gathering.say_at);
  }
  for (const Connection& c : connections_) {
    if (!c.known) consider(c.since + kHelloWithin);
    if (c.broken) consider(0);
  }
  return first;
}

void Hub::from_rank(uint32_t rank, const Message& message, int64_t now) {
  if (const auto* m = std::get_if<Report>(&message)) take_step(now, &Coordinator::receive, rank, *m);
  if (const auto* m = std::get_if<ExchangeMine>(&message)) gather(rank, *m, now);
  if (std::holds_alternative<Terminated>(message)) got_sigterm(rank, now);
}

void Hub::to_rank(uint32_t rank, const Message& message) {
  if (rank == 0) {
    for_own_rank_.push_back(message);
  } else if (Connection* c = ranks_[rank]; c != nullptr && !c->broken) {
    send(*c, message);
  }
}

void Hub::carry_out(Actions actions, int64_t now) {
  // For beside_seconds(), before the orders of a new phase are sent.
  const bool stands = coordinator_.phase() >= Phase::kStopping;
  if (stands && !stands_since_) {
    stands_since_ = thread_seconds();
  } else if (!stands && stands_since_) {
    still_seconds_ += thread_seconds() - *stands_since_;
    stands_since_.reset();
  }
  for (size_t i = 0; i < actions.size(); ++i) {
    const Action a = actions[i];  // a copy: the calls below append to `actions`
    if (const auto* send = std::get_if<SendOrder>(&a)) {
      to_rank(send->rank, send->order);
    } else if (std::holds_alternative<BeginVersion>(a)) {
      publisher_.stop_measuring();
      const Result<std::string> directory = caught([&] { return sink_->begin(); });
      if (directory)
        coordinator_.version_begun(*directory, now, &actions);
      else
        coordinator_.sink_failed(directory.error().message, now, &actions);
    } else if (const auto* publish = std::get_if<Publish>(&a)) {
      memory_written_ = 0;
      for (const ImageSummary& image : publish->version.images) memory_written_ += image.memory;
      publisher_.publish(sink_, publish->version);
    } else if (std::holds_alternative<Discard>(a)) {
      publisher_.discard(sink_);
    } else if (const auto* f = std::get_if<Finished>(&a)) {
      finished(f->outcome, now);
    }
  }
  if (!config_.trace_phase || traced_ == coordinator_.phase()) return;
  traced_ = coordinator_.phase();
  // Tracing is for tests; a full disk must not fail the checkpoint.
  [[maybe_unused]] const Status s = write_phase(config_, phase_name(traced_));
}

void Hub::take_from_publisher(int64_t now) {
  Actions out;
  while (const auto ended = publisher_.take()) {
    const auto* published = std::get_if<Result<uint64_t>>(&*ended);
    if (const auto* tidied = std::get_if<Publisher::Tidied>(&*ended)) {
      background_seconds_ += tidied->processor_seconds;
      tell_what_stays(tidied->outcome);
    } else if (const auto* measured = std::get_if<Publisher::Measured>(&*ended)) {
      background_seconds_ += measured->processor_seconds;
      disk_measured(measured->outcome, now);
    } else if (published == nullptr) {
      coordinator_.discarded(now, &out);
    } else if (*published) {
      coordinator_.published(**published, now, &out);
    } else {
      coordinator_.sink_failed(published->error().message, now, &out);
    }
  }
  carry_out(std::move(out), now);
}

void Hub::tell() {
  for (const std::string& line : std::exchange(lines_, {})) config_.report(line);
}

// Reports the same error once: tidying may fail after each version.
void Hub::tell_what_stays(const Status& tidied) {
  if (tidied || tidied.error().message == last_untidy_) return;
  last_untidy_ = tidied.error().message;
  say(last_untidy_);
}

void Hub::say_what_is_awaited(int64_t now) {
  if (!coordinator_.busy() || !asked_by_client_ || now < say_at_) return;
  say_at_ = now + config_.limits.say_again_after;
  const std::string line =
      formatted("waiting for {:.0f} s: {}", in_seconds(now - asked_at_), coordinator_.waits_for());
  for (Connection& c : connections_)
    if (c.waits && !c.broken) send(c, Waiting{line});
}

void Hub::close(int64_t now) {
  closes_ = !asked_by_signal_;
  take_step(now, &Coordinator::lost, 0, "has ended its program");  // first: no waiting request may begin now
  closes_ = false;
  publisher_.wait();
  take_from_publisher(now);
  // Without rank 0, images in progress cannot become a version; their writers end by themselves.
  if (coordinator_.phase() == Phase::kWriting) publisher_.discard(sink_);
  // Otherwise the process's end would leave a partial version for the next start.
  publisher_.wait();
  publisher_.wait_for_both();
  connections_.clear();
  tell();
  if (progress_) progress_->erase();
  metrics_.up = false;
  stands_since_.reset();
  write_metrics(monotonic_us());
  for (uint32_t r = 0; r < config_.ranks; ++r) remove_remote_rank(config_.directory, r);
  remove_job_file(config_.directory);
}

}  // namespace cropdl::coord
