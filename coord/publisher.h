// Runs VersionSink::publish(), discard() and tidy() in threads, so that the agent answers while the disk
// works. For rank 0's agent thread (LH FS base); its threads inherit the mask: all signals blocked.
#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <variant>
#include <vector>

#include "coord/event.h"
#include "coord/version_sink.h"

namespace cropdl::coord {

class Publisher {
 public:
  Publisher();
  struct Discarded {};
  struct Tidied {
    Status status;
    double processor_seconds = 0;  // what it took
  };
  // The results of publish(), discard() and tidy(). What the store throws, for lack of memory, is a failure.
  using Ended = std::variant<Result<uint64_t>, Discarded, Tidied>;

  int fd() const { return done_.fd(); }  // readable when take() has a result
  // One runs at a time: each call waits for the one before.
  void publish(VersionSink* sink, NewVersion version);
  void discard(VersionSink* sink);
  std::optional<Ended> take();   // in order of completion; empty: none left
  void wait() { end(thread_); }  // until neither runs; take() then has the result

  void tidy(VersionSink* sink);  // no effect while one runs; the next version's tidy() does its work
  void wait_for_tidy() { end(tidier_); }

 private:
  void run(const std::function<Ended()>& work);
  void note(Ended ended);
  static void end(std::jthread& thread) {
    if (thread.joinable()) thread.join();
  }

  const Event done_{EFD_SEMAPHORE};  // counts the elements of ended_
  std::atomic<bool> tidying_{false};
  std::mutex mutex_;
  std::vector<Ended> ended_;  // under mutex_
  std::jthread thread_, tidier_;
};

}  // namespace cropdl::coord
