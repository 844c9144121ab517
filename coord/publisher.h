// Runs VersionSink::publish() and tidy() in threads of their own, so that the agent answers while the disk
// works. Used by rank 0's agent thread (LH FS base); the thread inherits its signal mask: all blocked.
#pragma once

#include <atomic>
#include <optional>
#include <thread>

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
  int fd() const { return done_.fd(); }  // readable when a result can be taken
  void start(VersionSink* sink, std::vector<ImageSummary> images, double stall_seconds);
  std::optional<Result<uint64_t>> take();  // empty: not done
  void wait();                             // until nothing runs; the result, if any, can be taken then

  void tidy(VersionSink* sink);  // unless one is under way: the next version's will do its work
  void wait_for_tidy();

 private:
  Descriptor done_;
  std::thread thread_;
  std::optional<Result<uint64_t>> result_;  // written by thread_ before it signals done_
  std::thread tidier_;
  std::atomic<bool> tidying_{false};
};

}  // namespace cropdl::coord
