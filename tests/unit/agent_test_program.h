// A rank for load tests of agents. Its program is a thread that enters collectives (a barrier among threads)
// as fast as it can, and is held, stopped and resumed like a real one. All ranks are in one process.
#pragma once

#include <barrier>
#include <chrono>

#include "tests/unit/coord_fakes.h"

namespace cropdl::coord {

class RunningRank : public LocalRank {
 public:
  RunningRank(std::barrier<>* everyone, uint32_t self) : everyone_(everyone), self_(self) {}
  ~RunningRank() override { join(); }

  void run(int collectives) {
    program_ = std::thread([this, collectives] {
      for (int i = 0; i < collectives; ++i) {
        begin();
        everyone_->arrive_and_wait();
        const std::lock_guard lock(mutex_);
        inside_ = false;
        changed_.notify_all();
      }
    });
  }
  void join() {
    if (program_.joinable()) program_.join();
  }

  void hold() override {
    const std::lock_guard lock(mutex_);
    holding_ = true;
    target_ = 0;
  }
  void set_targets(const std::vector<CollectiveCount>& t) override {
    const std::lock_guard lock(mutex_);
    for (const CollectiveCount& c : t)
      if (c.comm == kWorld) target_ = c.begun;
    changed_.notify_all();
  }
  RankStatus status() override {
    const std::lock_guard lock(mutex_);
    RankStatus s;
    s.counts = {{kWorld, begun_}};
    s.inside.assign(inside_, kWorld);
    s.held.assign(held_, {kWorld, begun_ + 1});
    s.progress = begun_;
    return s;
  }
  bool try_stop(Status*) override {
    const std::lock_guard lock(mutex_);
    stop_ = true;
    return !inside_;
  }
  std::string refusal_when_stopped() override { return ""; }
  std::vector<PeerCount> sent() override { return {}; }
  void begin_drain(const std::vector<PeerCount>&) override {}
  bool drained(Status*) override { return true; }
  void begin_write(const std::string&) override {
    const std::lock_guard lock(mutex_);
    begun_at_write_ = begun_;
  }
  bool written(Status* failure, ImageSummary* image) override {
    const std::lock_guard lock(mutex_);
    if (begun_ != begun_at_write_ || inside_)
      *failure = Error{"the program ran on while its image was written"};
    image->file = "rank-" + std::to_string(self_);
    image->checksum = begun_;
    return true;
  }
  uint64_t memory_bytes() override { return 0; }
  void resume() override {
    const std::lock_guard lock(mutex_);
    holding_ = stop_ = false;
    changed_.notify_all();
  }
  void leave(int) override {}
  void die(int) override {}

 private:
  static constexpr uint64_t kWorld = 1;
  void begin() {
    std::unique_lock lock(mutex_);
    const auto may = [&] { return !stop_ && (!holding_ || begun_ < target_); };
    held_ = !may();
    changed_.wait(lock, may);
    held_ = false;
    ++begun_;
    inside_ = true;
  }

  std::barrier<>* everyone_;
  uint32_t self_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool holding_ = false, stop_ = false, inside_ = false, held_ = false;
  uint64_t begun_ = 0, target_ = 0, begun_at_write_ = 0;
  std::thread program_;
};

}  // namespace cropdl::coord
