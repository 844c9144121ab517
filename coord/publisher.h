// Runs VersionSink::publish(), discard() and tidy() in threads of their own, so that the agent answers while
// the disk works. Used by rank 0's agent thread (LH FS base); the thread inherits its signal mask: all
// blocked.
#pragma once

#include <atomic>
#include <functional>
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
  using Ended = std::variant<Result<uint64_t>, Discarded>;  // publish() with its result, or discard()

  int fd() const { return done_.fd(); }  // readable when an end can be taken
  // One at a time: either waits for the other.
  void publish(VersionSink* sink, std::vector<ImageSummary> images, double stall_seconds);
  void discard(VersionSink* sink);
  std::optional<Ended> take();  // empty: not done
  void wait();                  // until neither runs; the end, if any, can be taken then

  void tidy(VersionSink* sink);  // unless one is under way: the next version's will do its work
  void wait_for_tidy();

 private:
  void run(const std::function<Ended()>& work);

  Descriptor done_;
  std::thread thread_;
  std::optional<Ended> ended_;  // written by thread_ before it signals done_
  std::thread tidier_;
  std::atomic<bool> tidying_{false};
};

}  // namespace cropdl::coord
