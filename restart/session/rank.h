// This rank as the control plane sees it: what the agent's thread asks for, the program's main thread does
// while it is parked in serve(). One object per process.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "coord/local_rank.h"
#include "interpose/boundaries/tracker.h"
#include "interpose/libraries/libraries.h"
#include "interpose/seam/state.h"

namespace cropdl::session {

class Rank final : public coord::LocalRank {
 public:
  // Both called by the main thread while the program is stopped (checkpoint_session.h).
  struct Saving {
    std::function<std::string()> look;  // "" or why the checkpoint is refused
    std::function<Result<coord::ImageSummary>(const std::string& directory, const boundaries::Tracker&)>
        write;
    bool trace = false;  // says how long it took to stop
  };
  // `rank` of `ranks`: as the launcher said; 0 ranks: nobody did.
  Rank(libraries::Libraries libraries, Saving saving, std::string refusal = "", uint32_t rank = 0,
       uint32_t ranks = 0)
      : libraries_(std::move(libraries)),
        saving_(std::move(saving)),
        refusal_(std::move(refusal)),
        rank_(rank),
        ranks_(ranks) {}

  // MAIN. Runs on the LH stack, called by the core's suspend handler; returns when the program may go on.
  void serve();

  // MAIN, likewise, once the program's main thread has ended: serves for ever.
  [[noreturn]] void stay();

  // MAIN, once, just before the program runs: handlers and filter are in place. Until then a checkpoint is
  // refused.
  void ready() { ready_.store(true); }

  // START, before there is an agent; and MAIN, while it writes an image.
  boundaries::Tracker& tracker() { return tracker_; }

  // AGENT.
  int64_t observe(int64_t now) override;
  coord::Iterations iterations() override {
    if (has_tracker()) iterations_ = {tracker_.iterations(), static_cast<uint64_t>(tracker_.iteration_us())};
    return iterations_;
  }
  void hold() override;
  void set_targets(const std::vector<coord::CollectiveCount>& targets) override;
  coord::RankStatus status() override;
  bool try_stop(Status* failure) override;
  std::string refusal_when_stopped() override;
  std::vector<coord::PeerCount> sent() override;
  void begin_drain(const std::vector<coord::PeerCount>& expected) override;
  bool drained(Status* failure) override;
  void begin_write(const std::string& directory) override;
  bool written(Status* failure, coord::ImageSummary* summary) override;
  uint64_t memory_bytes() override;
  bool take_sigterm() override;
  void let_sigterm_kill() override;
  void resume() override;
  void leave(int status) override;
  void die(int signal) override;

 private:
  bool has_tracker();
  enum class Drain { kNone, kAsked, kBeginning, kRunning, kDone };
  std::string place_refusal() const;
  std::string drain_early();
  void trace_stop();
  void drain_some(std::unique_lock<std::mutex>& lock);
  void write(std::unique_lock<std::mutex>& lock);

  const libraries::Libraries libraries_;
  boundaries::Tracker tracker_;   // agent's; others' only while it waits for them
  coord::Iterations iterations_;  // agent only: as of when the tracker was its own last
  const Saving saving_;
  const std::string refusal_;  // why this program can never be saved, or ""
  const uint32_t rank_, ranks_;

  std::atomic<bool> ready_{false};
  std::string process_refusal_;  // agent only: of the attempt under way
  bool holding_ = false;         // agent only
  int64_t stop_asked_ = 0;       // agent only: us, monotonic
  bool stop_traced_ = false;

  std::mutex mutex_;              // guards everything below
  std::condition_variable wake_;  // the main thread waits on it while it serves
  bool stop_ = false;             // the agent wants the main thread in serve()
  bool here_ = false;             // the main thread is in serve(),
  bool serving_ = false;          // and has looked at everything
  bool gone_ = false;             // the program's main thread has ended: its kernel thread is in stay()
  bool others_stopped_ = false;   // all other threads of the program have stopped
  bool draining_early_ = false;   // messages are taken before all have stopped
  std::string stopped_refusal_;   // what it saw before it served
  Drain drain_ = Drain::kNone;
  std::vector<coord::PeerCount> expected_;
  bool quiet_ = false;     // nothing of the program is pending in a library
  std::string directory_;  // to write to, "" nothing asked
  bool written_ = false;
  Status write_status_;
  coord::ImageSummary summary_;
  std::optional<int> end_status_;  // the process is to end with it
};

}  // namespace cropdl::session
