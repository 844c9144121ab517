// Messages on the control plane's channels, and their bytes: kind, then fixed-width integers and counted
// strings in the machine's byte order (both ends are on one machine). Pure; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "coord/cut.h"

namespace cropdl::coord {

inline constexpr uint32_t kWireVersion = 16;  // changes with any message; both ends must agree

// First message of each connection; answered by Welcome or Rejected. Its layout never changes.
struct Hello {
  uint32_t wire_version = kWireVersion;
  std::string token;
  std::string run_id;
  uint32_t rank = 0;  // kNoRank: a cropdl command
};
inline constexpr uint32_t kNoRank = UINT32_MAX;
struct Welcome {};
struct Rejected {
  std::string reason;
};

struct Occupied {};  // another process is this rank; the answer may differ later

struct Bye {               // the rank's program has ended normally
  bool met_others = true;  // LocalRank::met_others()
};
struct ExchangeMine {
  uint64_t round;
  std::string text;
};
struct ExchangeAll {
  uint64_t round;
  std::vector<std::string> texts;
  std::string failure;
};
// What the ranks may tell each other in one exchange: ExchangeAll is one frame (channel.h). Bytes of all
// texts and kBytesOfText for each.
inline constexpr uint64_t kLongestExchange = (64u << 20) - 64, kBytesOfText = sizeof(uint64_t);
inline constexpr char kTooMuchToExchange[] = "the ranks have more than 64 MiB to tell each other at once";

struct Terminated {};  // the rank's program got SIGTERM and waits for a last version
struct Die {};         // no last version will be taken: the rank dies of SIGTERM

struct AskCheckpoint {
  bool last = false;  // the job ends after the version
};
struct AskStatus {};
struct Accepted {};  // the request is being served; Waiting and Done follow
struct Waiting {     // any number of times before Done
  std::string line;  // what the request waits for, for people
};
struct Done {
  Outcome outcome;
};
struct StatusIs {
  std::string phase;
  uint32_t ranks = 0;
  uint32_t joined = 0;        // ranks that can be checkpointed now
  uint64_t last_version = 0;  // by this run; 0: none
  std::string last_line;      // of the last failed request, or ""
  uint64_t iteration = 0;     // completed iterations of rank 0, 0: unknown
  uint64_t iteration_us = 0;  // length of an iteration, 0: unknown
};

using Message =
    std::variant<Hello, Welcome, Rejected, Bye, ExchangeMine, ExchangeAll, AskCheckpoint, AskStatus, Accepted,
                 Waiting, Done, StatusIs, Terminated, Die, Order, Report, Occupied>;

std::string message_bytes(const Message& message);
std::optional<Message> message_from_bytes(const std::string& bytes);  // empty: not a message

}  // namespace cropdl::coord
