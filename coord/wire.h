// What travels over the control plane's channels, and its bytes: fixed-width integers and counted strings in
// the machine's byte order (both ends are on one machine), the kind of message first. Pure; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "coord/cut.h"

namespace cropdl::coord {

inline constexpr uint32_t kWireVersion = 9;  // changes whenever a message does; both ends must have the same

// First message of every connection; the answer is Welcome or Rejected. Its layout never changes.
struct Hello {
  uint32_t wire_version = kWireVersion;
  std::string token;
  std::string run_id;
  uint32_t rank = 0;  // kNoRank: the cropdl command
};
inline constexpr uint32_t kNoRank = UINT32_MAX;
struct Welcome {};
struct Rejected {
  std::string reason;
};

struct Bye {};  // the rank's program has ended in good order
struct ExchangeMine {
  uint64_t round;
  std::string text;
};
struct ExchangeAll {
  uint64_t round;
  std::vector<std::string> texts;
  std::string failure;
};

struct Terminated {};  // the rank's program got SIGTERM, and waits for a last version,
struct Die {};         // ... of which nothing will come: it dies of it

struct AskCheckpoint {
  bool last = false;  // the job ends behind it
};
struct AskStatus {};
struct Accepted {};  // the request is being served; Done follows
struct Waiting {     // any number of times before it
  std::string line;  // what for, for people
};
struct Done {
  Outcome outcome;
};
struct StatusIs {
  std::string phase;
  uint32_t ranks = 0;
  uint32_t joined = 0;
  uint64_t last_version = 0;  // 0: none by this run yet
  std::string last_line;      // of the last request that failed, or ""
  uint64_t iteration = 0;     // complete ones of rank 0, 0: none are known,
  uint64_t iteration_us = 0;  // and how long one takes
};

using Message = std::variant<Hello, Welcome, Rejected, Bye, ExchangeMine, ExchangeAll, AskCheckpoint,
                             AskStatus, Accepted, Waiting, Done, StatusIs, Terminated, Die, Order, Report>;

std::string message_bytes(const Message& message);
std::optional<Message> message_from_bytes(const std::string& bytes);  // empty: not a message

}  // namespace cropdl::coord
