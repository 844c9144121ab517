// A fake rank and a fake store, controlled by the test, for tests of the agreement and the control plane.
#pragma once

#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <new>
#include <string>
#include <thread>

#include "base/time.h"
#include "coord/version_sink.h"

namespace cropdl::coord {

// Stops and drains at once, writes nothing. Reports the values that the test sets before or while it runs.
class FakeRank : public LocalRank {
 public:
  int64_t observe(int64_t) override {
    allocate("observe");
    return INT64_MAX;
  }
  void hold() override {
    ++holds;
    allocate("hold");
  }
  void set_targets(const std::vector<CollectiveCount>& t) override {
    const std::lock_guard lock(mutex);
    targets = t;
  }
  RankStatus status() override {
    const std::lock_guard lock(mutex);
    return stands;
  }
  int64_t waited() override { return waits; }
  bool try_stop(Status* failure) override {
    allocate("stop");
    const std::lock_guard lock(mutex);
    if (!stop_failure.empty()) *failure = Error{stop_failure};
    return !unstoppable;
  }
  bool examining() override { return examines; }
  std::string refusal_when_stopped() override {
    const std::lock_guard lock(mutex);
    return stopped_refusal;
  }
  std::vector<PeerCount> sent() override {
    const std::lock_guard lock(mutex);
    return sends;
  }
  void begin_drain(const std::vector<PeerCount>& e) override {
    const std::lock_guard lock(mutex);
    expected = e;
    ++drains;
  }
  bool drained(Status* failure) override {
    if (slow_drain) return false;
    allocate("drained");
    const std::lock_guard lock(mutex);
    if (!drain_failure.empty()) *failure = Error{drain_failure};
    return true;
  }
  void begin_write(const std::string& d) override {
    for (const double end = thread_seconds() + busy_seconds; thread_seconds() < end;) {
    }
    const std::lock_guard lock(mutex);
    directory = d;
  }
  bool written(Status* failure, ImageSummary* image) override {
    if (slow_write) return false;
    allocate("written");
    const std::lock_guard lock(mutex);
    if (!write_failure.empty()) *failure = Error{write_failure};
    image->bytes = 1000;
    return true;
  }
  bool met_others() override { return met; }
  uint64_t memory_bytes() override { return memory; }
  bool take_sigterm() override {
    allocate("take_sigterm");
    return false;
  }
  void resume() override { ++resumes; }
  void leave(int s) override { left_with = s; }
  void die(int s) override { died_of = s; }

  std::atomic<int> holds{0}, resumes{0}, drains{0}, left_with{0}, died_of{0};
  std::atomic<bool> unstoppable{false}, examines{false}, slow_drain{false}, slow_write{false}, met{true};
  std::atomic<uint64_t> memory{0};
  std::atomic<double> busy_seconds{0};  // processor time that begin_write() takes
  std::atomic<int64_t> waits{0};
  std::mutex mutex;  // guards the members below
  RankStatus stands;
  std::string stopped_refusal, stop_failure, drain_failure, write_failure, directory;
  std::vector<CollectiveCount> targets;
  std::vector<PeerCount> sends, expected;
  // the function that throws std::bad_alloc: observe, hold, stop, drained, written, or, at each turn,
  // take_sigterm
  std::string no_memory_in;

 private:
  void allocate(const char* in) {
    const std::lock_guard lock(mutex);
    if (no_memory_in == in) throw std::bad_alloc();
  }
};

class FakeSink : public VersionSink {
 public:
  Result<std::string> begin() override {
    const Alone alone(this);
    ++begun;
    if (no_memory_to_begin) throw std::bad_alloc();
    if (!begin_failure.empty()) return Error{begin_failure};
    return std::string("/version");
  }
  Result<uint64_t> publish(const NewVersion& version) override {
    const Alone alone(this);
    while (slow_publish) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (no_memory_to_publish) throw std::bad_alloc();
    if (!publish_failure.empty()) return Error{publish_failure};
    if (failures > 0) return --failures, Error{"the disk is full for a moment"};
    const std::lock_guard lock(mutex_);
    images_ = version.images;
    return ++versions;
  }
  void discard() override {
    const Alone alone(this);
    ++discarding;
    while (slow_discard) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    ++discarded;
  }
  Status tidy() override {
    while (slow_tidy) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    ++tidied;
    if (tidy_failure.empty()) return {};
    return Error{tidy_failure};
  }
  Result<double> measure_disk(const std::stop_token& stop) override {
    ++measured;
    if (when_measured) when_measured();
    while (slow_disk && !stop.stop_requested()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (stop.stop_requested()) return ++stopped, Error{"stopped"};
    return disk_speed;
  }
  Status set_aside() override {
    if (no_memory_to_set_aside) throw std::bad_alloc();
    return {};
  }
  std::vector<ImageSummary> last_images() {
    const std::lock_guard lock(mutex_);
    return images_;
  }

  std::atomic<uint64_t> begun{0}, versions{0}, discarding{0}, discarded{0}, tidied{0};
  std::atomic<uint64_t> measured{0}, stopped{0};
  std::atomic<bool> slow_publish{false}, slow_discard{false}, slow_tidy{false}, slow_disk{false};
  // these calls throw std::bad_alloc
  std::atomic<bool> no_memory_to_begin{false}, no_memory_to_publish{false}, no_memory_to_set_aside{false};
  std::atomic<bool> two_at_a_time{false};  // must never happen, except in tidy()
  std::atomic<int> failures{0};            // so many calls of publish() fail
  std::string begin_failure, publish_failure, tidy_failure;
  double disk_speed = 1e15;  // bytes per second
  std::function<void()> when_measured;

 private:
  struct Alone {
    explicit Alone(FakeSink* sink) : sink_(sink) {
      if (sink_->in_use_.exchange(true)) sink_->two_at_a_time = true;
    }
    ~Alone() { sink_->in_use_ = false; }
    FakeSink* sink_;
  };
  std::atomic<bool> in_use_{false};
  std::mutex mutex_;
  std::vector<ImageSummary> images_;
};

class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    std::string name = "/tmp/cropdl-test." + std::to_string(::getpid()) + ".XXXXXX";
    if (mkdtemp(name.data()) == nullptr) std::abort();
    path = name;
  }
  ~TemporaryDirectory() { std::filesystem::remove_all(path); }
  std::string path;
};

}  // namespace cropdl::coord
