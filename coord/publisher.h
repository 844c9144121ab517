// Runs VersionSink::publish(), discard() and tidy() in threads of their own, so that the agent answers while
// the disk works. Used by rank 0's agent thread (LH FS base); the thread inherits its signal mask: all
// blocked.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <variant>

#include "coord/channel.h"
#include "coord/version_sink.h"

namespace cropdl::coord {

class Publisher {
 public:
  Publisher();
  ~Publisher() {
    wait();
    wait_for_tidy();
  }
  struct Discarded {};
  struct Tidied {
    Status status;
  };
  // publish() with its result, discard(), or tidy() with its.
  using Ended = std::variant<Result<uint64_t>, Discarded, Tidied>;

  int fd() const { return done_.fd(); }  // readable when an end can be taken
  // One at a time: either waits for the other.
  void publish(VersionSink* sink, std::vector<ImageSummary> images, double stall_seconds);
  void discard(VersionSink* sink);
  std::optional<Ended> take();  // in the order in which they came; empty: none is left
  void wait();                  // until neither runs; their end can be taken then

  void tidy(VersionSink* sink);  // unless one is under way: the next version's will do its work
  void wait_for_tidy();

 private:
  void run(const std::function<Ended()>& work);
  void note(Ended ended);

  Descriptor done_;  // counts what is in ended_
  std::thread thread_;
  std::thread tidier_;
  std::atomic<bool> tidying_{false};
  std::mutex mutex_;
  std::deque<Ended> ended_;  // under mutex_
};

}  // namespace cropdl::coord
