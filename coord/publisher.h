// Runs VersionSink's functions that wait for the disk in threads, so that the agent answers meanwhile. For
// rank 0's agent thread (LH FS base); its threads inherit the mask: all signals blocked.
#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <optional>
#include <stop_token>
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
  template <typename Outcome>
  struct Beside {
    Outcome outcome;
    double processor_seconds;  // what it took
  };
  using Tidied = Beside<Status>;
  using Measured = Beside<Result<double>>;  // the disk's speed, bytes per second
  // The results of publish(), discard(), tidy() and measure_disk(). What the store throws, for lack of
  // memory, is a failure.
  using Ended = std::variant<Result<uint64_t>, Discarded, Tidied, Measured>;

  int fd() const { return done_.fd(); }  // readable when take() has a result
  // One runs at a time: each call waits for the one before.
  void publish(VersionSink* sink, NewVersion version);
  void discard(VersionSink* sink);
  std::optional<Ended> take();   // in order of completion; empty: none left
  void wait() { end(thread_); }  // until neither runs; take() then has the result

  // These two do nothing while one of them runs, or if there is no thread for them. After a tidy() that did
  // nothing, the next version's does its work.
  void tidy(VersionSink* sink);
  bool measure_disk(VersionSink* sink);              // false: it did nothing
  void stop_measuring() { beside_.request_stop(); }  // the disk is needed
  void wait_for_both() {
    stop_measuring();
    end(beside_);
  }

 private:
  void run(const std::function<Ended()>& work);
  template <typename Outcome>
  bool run_beside(const std::function<Outcome(const std::stop_token&)>& work);
  void note(Ended ended);
  static void end(std::jthread& thread) {
    if (thread.joinable()) thread.join();
  }

  const Event done_{EFD_SEMAPHORE};  // counts the elements of ended_
  std::atomic<bool> runs_beside_{false};
  std::mutex mutex_;
  std::vector<Ended> ended_;  // under mutex_
  std::jthread thread_, beside_;
};

}  // namespace cropdl::coord
