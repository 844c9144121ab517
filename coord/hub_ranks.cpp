// See hub.h: ranks that join, are lost, are stopped or run on another node, and exchanges between ranks.
#include "base/file.h"
#include "base/format.h"
#include "base/time.h"
#include "coord/hub.h"

namespace cropdl::coord {

constexpr int64_t kLookForStopped = 500'000;  // us

void Hub::greet(Connection& c, const Hello& hello, int64_t now) {
  std::string why;
  if (hello.wire_version != kWireVersion)
    why = "it was built from another version of CropDL than rank 0; start all with the same one";
  else if (hello.token != job_.token || c.known)
    why = "it does not belong to this job";
  else if (hello.rank != kNoRank && hello.run_id != job_.run_id)
    why = "it belongs to another launch";
  else if (hello.rank != kNoRank && hello.rank >= config_.ranks)
    why = "this job has fewer ranks";
  // Another process may take the rank's place if the rank's last one was an earlier program of a script. Its
  // image must not be in a version, nor in the one being taken.
  const bool occupied = why.empty() && hello.rank != kNoRank && joined_[hello.rank] &&
                        (!left_alone_[hello.rank] || metrics_.last_version != 0 || coordinator_.busy());
  if (why.empty() && !occupied && hello.rank != kNoRank) c.process = c.channel.stream().watch();
  const auto is_low = [](int fd) { return fd >= 0 && fd < first_high_descriptor(); };
  // The program may close or replace it, or a restart give its number to a file.
  if (why.empty() && shares_descriptors_ && (is_low(c.channel.fd()) || is_low(c.process.fd())))
    why = formatted(
        "rank 0 has no descriptor left for it above the program's; raise ulimit -n to {}, or let "
        "the sandbox permit unshare(CLONE_FILES)",
        kUsualTable + 2 * static_cast<int>(config_.ranks));
  if (!why.empty() || occupied) {
    c.process.close();
    send(c, !why.empty() ? Message(Rejected{why}) : Message(Occupied{}));
    c.broken = true;
    return;
  }
  c.known = true;
  c.rank = hello.rank;
  send(c, Welcome{});
  if (c.rank == kNoRank) return;
  ranks_[c.rank] = &c;
  joined_[c.rank] = true;
  if (left_alone_[c.rank]) {
    left_alone_[c.rank] = terminated_[c.rank] = false;
    std::erase_if(lost_, [&c](const auto& lost) { return lost.first == c.rank; });
  }
  take_step(now, &Coordinator::joined, c.rank);
}

void Hub::drop_broken(int64_t now) {
  for (;;) {  // dropping a connection may break a write to another
    const auto c = std::ranges::find(connections_, true, &Connection::broken);
    if (c == connections_.end()) return;
    const uint32_t rank = c->rank;
    const std::string why = c->why_broken.empty()
                                ? formatted("is gone: its process (pid {}) died or left the job", c->pid)
                                : c->why_broken;
    connections_.erase(c);
    if (rank != kNoRank) lose(rank, why, now);
  }
}

void Hub::lose(uint32_t rank, const std::string& why, int64_t now) {
  ranks_[rank] = nullptr;
  fail_exchanges(rank, formatted("rank {} {}", rank, why));
  take_step(now, &Coordinator::lost, rank, why);
}

uint32_t Hub::alive() const {
  return 1 + config_.ranks - static_cast<uint32_t>(std::ranges::count(ranks_, nullptr));
}

void Hub::look_for_remote_ranks(int64_t now) {
  for (uint32_t r = 1; r < config_.ranks; ++r) {
    if (joined_[r]) continue;
    const std::string host = remote_rank_host(config_.directory, config_.run_id, r);
    if (host.empty()) continue;
    take_step(now, &Coordinator::lost, r,
              formatted("runs on {} and rank 0 on {}; checkpoints need all ranks on one node in this "
                        "version; the program runs",
                        host, config_.host));
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
    take_step(now, &Coordinator::stands_still, c.rank,
              formatted("has been stopped for {:.3g} s (SIGSTOP, or a debugger); let its process go on (kill "
                        "-CONT {}) and try again",
                        in_seconds(now - c.stopped_since), c.pid));
  }
}

void Hub::gather(uint32_t rank, const ExchangeMine& m, int64_t now) {
  if (!lost_.empty()) return to_rank(rank, ExchangeAll{m.round, {}, lost_.front().second});
  Gathering& gathering = exchanges_[m.round];
  if (gathering.texts.empty()) {
    gathering.began = now;
    gathering.give_up_at = now + static_cast<int64_t>(config_.rendezvous_seconds * 1e6);
    gathering.say_at = now + static_cast<int64_t>(config_.say_seconds * 1e6);
  }
  gathering.texts[rank] = m.text;
  gathering.bytes += m.text.size() + kBytesOfText;
  if (gathering.bytes > kLongestExchange) return fail_exchanges(rank, kTooMuchToExchange);
  if (gathering.texts.size() < config_.ranks) return;
  ExchangeAll all{m.round, {}, ""};
  for (auto& [r, text] : gathering.texts) all.texts.push_back(std::move(text));
  exchanges_.erase(m.round);
  const Frame frame = frame_of(message_bytes(all));
  for_own_rank_.push_back(all);
  for (Connection* c : ranks_)
    if (c != nullptr && !c->broken) send(*c, frame);
}

void Hub::fail_exchanges(uint32_t rank, const std::string& why) {
  lost_.emplace_back(rank, why);
  for (const auto& [round, gathering] : std::exchange(exchanges_, {}))
    for (const auto& [member, text] : gathering.texts) to_rank(member, ExchangeAll{round, {}, why});
}

// Waits for a joined rank as long as it lives, since only it knows how much it has to load, and reports that
// from time to time. A rank that has not joined may never come.
void Hub::look_after_exchanges(int64_t now) {
  for (auto& [round, gathering] : exchanges_) {
    for (uint32_t r = 0; r < config_.ranks; ++r)
      if (!joined_[r] && now >= gathering.give_up_at)
        return fail_exchanges(r,
                              formatted("rank {} has not come within {:g} s", r, config_.rendezvous_seconds));
    if (now < gathering.say_at) continue;
    gathering.say_at = now + static_cast<int64_t>(config_.say_seconds * 1e6);
    uint32_t first = config_.ranks, missing = 0;
    for (uint32_t r = 0; r < config_.ranks; ++r)
      if (gathering.texts.count(r) == 0 && missing++ == 0) first = r;
    const std::string others = missing > 1 ? formatted(" and {} more", missing - 1) : "";
    const Connection* c = ranks_[first];
    say(formatted("waiting for rank {} (pid {}){} for {:.0f} s: still loading or starting its MPI", first,
                  c != nullptr ? c->pid : job_.pid, others, in_seconds(now - gathering.began)));
  }
}

}  // namespace cropdl::coord
