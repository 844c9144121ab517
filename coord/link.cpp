// See link.h.
#include "coord/link.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/format.h"

namespace cropdl::coord {

constexpr int64_t kSayApartAfter = 10'000'000;  // us; an earlier job's file is usually replaced sooner
constexpr int64_t kLongestPause = 200'000;      // us between reads of DIR/job, which may be on a network disk

Link::Link(const AgentConfig& config, std::function<bool()> may_follow, int64_t now)
    : config_(config),
      may_follow_(std::move(may_follow)),
      give_up_at_(now + static_cast<int64_t>(config.rendezvous_seconds * 1e6)),
      next_try_(now),
      say_apart_at_(now + std::min(kSayApartAfter, (give_up_at_ - now) / 2)) {}

void Link::add_to_poll(std::vector<pollfd>* fds) const {
  if (!channel_) return;
  fds->push_back({channel_->fd(), static_cast<short>(POLLIN | (channel_->wants_write() ? POLLOUT : 0)), 0});
  fds->push_back({hub_process_.fd(), POLLIN, 0});
}

void Link::handle(const std::vector<pollfd>& fds, size_t first, int64_t now, std::vector<Message>* in) {
  if (!channel_ || first + 1 >= fds.size()) return;
  if ((fds[first].revents & POLLOUT) != 0 && !channel_->flush()) lost_ = true;
  if (fds[first + 1].revents != 0) lost_ = true;
  // What rank 0 sent before it ended counts: its last order may be End.
  std::vector<std::string> messages;
  if ((fds[first].revents != 0 || lost_) && !channel_->receive(&messages)) lost_ = true;
  for (const std::string& bytes : messages) {
    const std::optional<Message> m = message_from_bytes(bytes);
    if (!m) return leave("rank 0 sent what is no message of this version of CropDL");
    if (const auto* rejected = std::get_if<Rejected>(&*m))
      return leave("rank 0 refuses it: " + rejected->reason);
    if (std::holds_alternative<Occupied>(*m)) {
      const std::string why = "rank 0 refuses it: there is such a rank already";
      if (!may_follow_()) return leave(why);
      hang_up();
      return search_again(now, why);
    }
    if (std::holds_alternative<Welcome>(*m))
      state_ = State::kJoined;
    else
      in->push_back(*m);
  }
  if (!lost_) return;
  if (state_ != State::kGreeting || fds[first + 1].revents != 0) return lose_hub(now);
  hang_up();  // rank 0 has dropped the connection, because one of the two was late
  search_again(now, "rank 0 does not keep its connection");
}

// Tries to connect.
void Link::tick(int64_t now) {
  if (state_ != State::kSearching || now < next_try_) return;
  bool missing = false, refused = false;
  const Result<JobFile> job = read_job_file(config_.directory, &missing);
  const bool known =
      !token_.empty() && token_ != ended_;  // this rank knows its hub, which has no room for it
  if (known && (missing || (job && job->token != token_))) return lose_hub(now);
  if (!job) return search_again(now, job.error().message);
  if (job->token == ended_) return search_again(now, kHubIsGone);  // it is ending, or was killed
  if (job->run_id != config_.run_id) return search_again(now, of_another_launch(*job, now));
  Result<std::unique_ptr<Stream>> stream = connect_to(job->address, &refused);
  if (!stream) {
    if (refused && known) return lose_hub(now);
    if (refused && job->host != config_.host) {
      leave_remote_rank(config_.directory, config_.run_id, config_.rank, config_.host);
      return leave(
          formatted("it runs on {} and rank 0 on {}; checkpoints need all ranks on one node in this version; "
                    "the program runs",
                    config_.host, job->host));
    }
    return search_again(now, stream.error().message);
  }
  if ((*stream)->peer().uid != geteuid())
    return leave("the process at rank 0's address belongs to another user");
  hub_process_ = (*stream)->watch();
  channel_.emplace(std::move(*stream));
  token_ = job->token;
  state_ = State::kGreeting;
  send(Hello{kWireVersion, job->token, config_.run_id, config_.rank});
}

// Some launches have a run_id per node (Hydra's, from its proxies), so rank 0's file looks like an earlier
// job's. So the rank records its host under that run_id, which only its rank 0 reads.
std::string Link::of_another_launch(const JobFile& job, int64_t now) {
  const bool certain = !ended_.empty();  // this rank knows the run_id of its launch's rank 0
  if (certain || job.host == config_.host || job.ranks != config_.ranks)
    return config_.directory + "/job is of another launch";
  if (now >= say_apart_at_) {
    say_apart_at_ = INT64_MAX;
    leave_remote_rank(config_.directory, job.run_id, config_.rank, config_.host);
  }
  return formatted(
      "{}/job is of a launch on {}, and this rank runs on {}; checkpoints need all ranks on one node in this "
      "version; the program runs",
      config_.directory, job.host, config_.host);
}

// That program of rank 0 has ended. If this rank's has had nothing to do with it, as far as a library knows,
// rank 0 may have been one program behind, in a script.
void Link::lose_hub(int64_t now) {
  if (!may_follow_()) return leave(kHubIsGone);
  hang_up();
  ended_ = token_;
  give_up_at_ = now + static_cast<int64_t>(config_.rendezvous_seconds * 1e6);
  pause_ = kFirstPause;
  search_again(now, kHubIsGone);
}

// Gives up only after a try: this thread may have been paused since it had time left.
void Link::search_again(int64_t now, const std::string& because) {
  if (now >= give_up_at_) return leave(ended_.empty() ? "rank 0 was not found: " + because : kHubIsGone);
  state_ = State::kSearching;
  next_try_ = std::min(now + pause_, give_up_at_);
  pause_ = std::min(pause_ * 2, kLongestPause);
}

std::optional<int64_t> Link::deadline() const {
  if (channel_ && lost_) return 0;
  return state_ == State::kSearching ? std::optional(next_try_) : std::nullopt;
}

void Link::send(const Message& message) {
  if (channel_ && !channel_->send(message_bytes(message))) lost_ = true;
}

void Link::hang_up() {
  channel_.reset();
  hub_process_.close();
  lost_ = false;
}

void Link::leave(const std::string& why) {
  state_ = State::kAlone;
  alone_ = why;
  hang_up();
}

}  // namespace cropdl::coord
