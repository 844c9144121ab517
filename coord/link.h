// A rank's end of the control plane, on every rank but 0: finds the hub through DIR/job, joins it, and
// notices when it is gone. Owned and called by the rank's agent thread only (LH FS base). Times:
// CLOCK_MONOTONIC, us.
#pragma once

#include <poll.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "coord/agent_config.h"
#include "coord/channel.h"
#include "coord/job_file.h"
#include "coord/wire.h"

namespace cropdl::coord {

inline constexpr char kHubIsGone[] = "rank 0 is gone";  // what all other ranks then know

class Link {
 public:
  Link(const AgentConfig& config, int64_t now);

  void add_to_poll(std::vector<pollfd>* fds) const;
  // Messages from the hub are appended to `in`.
  void handle(const std::vector<pollfd>& fds, size_t first, std::vector<Message>* in);
  void tick(int64_t now);
  std::optional<int64_t> deadline() const;
  void send(const Message& message);

  bool joined() const { return state_ == State::kJoined; }
  // Why this rank is without a hub for good, or "".
  const std::string& alone() const { return alone_; }

 private:
  enum class State { kSearching, kGreeting, kJoined, kAlone };
  void try_to_connect(int64_t now);
  std::string of_another_launch(const JobFile& job, int64_t now);
  void search_again(int64_t now, const std::string& because);
  void leave(const std::string& why);

  const AgentConfig& config_;
  State state_ = State::kSearching;
  std::optional<Channel> channel_;
  Descriptor hub_process_;
  int64_t give_up_at_;
  int64_t next_try_;
  int64_t say_apart_at_;  // that DIR/job may be this launch's, on another node; INT64_MAX: said
  int64_t pause_ = 2'000;
  std::string because_ = "no file DIR/job of this launch";
  std::string alone_;
};

}  // namespace cropdl::coord
