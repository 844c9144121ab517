// A rank's side of the control plane, on all ranks but 0: finds the hub by DIR/job, joins it, notices its
// loss. For the rank's agent thread only (LH FS base). Times: CLOCK_MONOTONIC, us.
#pragma once

#include <poll.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "coord/agent_config.h"
#include "coord/channel.h"
#include "coord/job_file.h"
#include "coord/wire.h"

namespace cropdl::coord {

inline constexpr char kHubIsGone[] = "rank 0 is gone";  // reported by all other ranks

class Link {
 public:
  // `may_follow`: whether this rank may join the hub of rank 0's next program (docs/cut.md, "Scripts").
  Link(const AgentConfig& config, std::function<bool()> may_follow, int64_t now);

  void add_to_poll(std::vector<pollfd>* fds) const;
  // Appends messages from the hub to `in`.
  void handle(const std::vector<pollfd>& fds, size_t first, int64_t now, std::vector<Message>* in);
  void tick(int64_t now);
  std::optional<int64_t> deadline() const;
  void send(const Message& message);

  bool joined() const { return state_ == State::kJoined; }
  // Why this rank has no hub and will get none, or "".
  const std::string& alone() const { return alone_; }

 private:
  static constexpr int64_t kFirstPause = 2'000;  // us
  enum class State { kSearching, kGreeting, kJoined, kAlone };
  std::string of_another_launch(const JobFile& job, int64_t now);
  void search_again(int64_t now, const std::string& because);
  void lose_hub(int64_t now);
  void hang_up();
  void leave(const std::string& why);

  const AgentConfig& config_;
  const std::function<bool()> may_follow_;
  State state_ = State::kSearching;
  std::optional<Channel> channel_;
  Descriptor hub_process_;
  bool lost_ = false;  // rank 0 has ended or cannot be reached; what it sent before is still to be read
  int64_t give_up_at_;
  int64_t next_try_;
  // When to record that this rank may be on another node than the launch's rank 0; INT64_MAX: done.
  int64_t say_apart_at_;
  int64_t pause_ = kFirstPause;
  std::string token_;  // of the hub that was last connected to
  std::string ended_;  // token of the hub that was lost last; it is not joined again
  std::string alone_;
};

}  // namespace cropdl::coord
