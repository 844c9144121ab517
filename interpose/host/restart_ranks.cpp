#include "interpose/host/restart_ranks.h"

#include <unistd.h>

#include <algorithm>

#include "base/format.h"
#include "base/say.h"
#include "coord/link.h"

namespace cropdl::host {
namespace {

// Seconds within which a launcher ends all ranks after rank 0 has said its line and ended, on a busy machine.
constexpr unsigned kLauncherEndsAll = 10;

// A rank has died, or did not come. Rank 0 says so. If rank 0 itself is lost, it or its launcher has said
// why; rank 1 speaks only if nobody has ended it.
[[noreturn]] void die_of_loss(const Process& p, const std::string& why) {
  const std::string line = "the ranks of this restart did not find each other: " + why;
  if (why.starts_with("rank " + std::to_string(p.launch.rank) + ": ")) die(line);
  if (why != coord::kHubIsGone) die_together(p, line);
  sleep(kLauncherEndsAll);
  if (p.launch.rank == 1) say("cropdl-restart: " + line);
  _exit(1);
}

}  // namespace

std::vector<std::string> all_gather(Process& p, const std::string& mine) {
  auto all = p.agent->exchange(mine);
  if (!all) die_of_loss(p, all.error().message);
  return std::move(*all);
}

std::vector<std::string> all_gather(Process& p, const std::string& mine, const std::string& if_too_long) {
  uint64_t bytes = 0;
  for (const std::string& size : all_gather(p, std::to_string(mine.size())))
    bytes += std::stoull(size) + coord::kBytesOfText;
  if (bytes > coord::kLongestExchange) die_together(p, if_too_long);
  return all_gather(p, mine);
}

void die_together(const Process& p, const std::string& line) {
  if (p.launch.rank == 0) {
    say("cropdl-restart: " + line);
  } else {
    sleep(kLauncherEndsAll);
    // With agents, the ranks have agreed on it.
    if (!p.agent) say(formatted("cropdl-restart: rank {}: {}", p.launch.rank, line));
  }
  _exit(1);
}

std::string agree(Process& p, const std::string& mine) {
  const std::vector<std::string> all = all_gather(p, mine);
  for (size_t r = 0; r < all.size(); ++r)
    if (!all[r].starts_with(kFine))
      return formatted("{}rank {}: {}", all[r].substr(0, 1), r, all[r].substr(1));
  for (size_t r = 1; r < all.size(); ++r)
    if (all[r] != all.front())
      return kRefused + formatted(
                            "{} changed while the ranks read it (rank 0 is {}, rank {} is {}); start "
                            "the restart again",
                            p.boot.directory, all.front(), r, all[r]);
  return "";
}

void agree_or_die(Process& p, const Status& step) {
  const std::string verdict = agree(p, step ? kFine : kRefused + step.error().message);
  if (!verdict.empty()) die_together(p, verdict.substr(1));
}

std::string gather(Process& p, const std::string& mine) {
  // A part of too much is enough for people.
  const auto share = coord::kLongestExchange / static_cast<uint64_t>(p.launch.ranks) - coord::kBytesOfText;
  const std::vector<std::string> all = all_gather(p, mine.substr(0, share));
  std::string line;
  for (auto it = all.begin(); it != all.end(); ++it) {
    if (it->empty() || std::find(all.begin(), it, *it) != it) continue;  // said with an earlier rank
    const auto others = std::count(it + 1, all.end(), *it);
    line += line.empty() ? "" : "; ";
    if (all.size() > 1) line += formatted("rank {}", it - all.begin());
    if (others > 0) line += formatted(" and {} more", others);
    line += (all.size() > 1 ? ": " : "") + *it;
  }
  return line;
}

}  // namespace cropdl::host
