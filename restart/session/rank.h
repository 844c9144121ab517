// This rank as the control plane sees it: the agent's thread requests, the program's main thread, parked in
// serve(), executes. One object per process.
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
  // The main thread calls both while the program is stopped (checkpoint_session.h).
  struct Saving {
    std::function<Status()> look;  // an error: why the checkpoint is refused
    std::function<Result<coord::ImageSummary>(const std::string& directory, const boundaries::Tracker&)>
        write;
    bool trace = false;  // report how long the stop took
  };
  // `rank`, `ranks`: from the launcher; 0 ranks: no launcher.
  Rank(libraries::Libraries libraries, Saving saving, std::string refusal = "", uint32_t rank = 0,
       uint32_t ranks = 0)
      : libraries_(std::move(libraries)),
        saving_(std::move(saving)),
        refusal_(std::move(refusal)),
        rank_(rank),
        ranks_(ranks) {}

  // MAIN. On the LH stack, called by the core's suspend handler; returns when the program may resume.
  void serve();

  // MAIN, on the LH stack, after the program's main thread has ended: serves forever.
  [[noreturn]] void stay();

  // MAIN, once, before the program runs, with handlers and filter: until then checkpoints are refused.
  void ready() { ready_.store(true); }

  // START, before the agent exists; and MAIN, while it writes an image.
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
  int64_t waited() override;
  bool try_stop(Status* failure) override;
  bool examining() override;
  std::string refusal_when_stopped() override;
  std::vector<coord::PeerCount> sent() override;
  void begin_drain(const std::vector<coord::PeerCount>& expected) override;
  bool drained(Status* failure) override;
  void begin_write(const std::string& directory) override;
  bool written(Status* failure, coord::ImageSummary* summary) override;
  bool met_others() override { return libraries_.met_others(); }
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
  std::string call_left();
  void fail_drain(Status why);
  void drain_some(std::unique_lock<std::mutex>& lock);
  void write(std::unique_lock<std::mutex>& lock);

  const libraries::Libraries libraries_;
  boundaries::Tracker tracker_;   // the agent's; used by others only while it waits for them
  coord::Iterations iterations_;  // agent only: from the agent's last use of the tracker
  const Saving saving_;
  const std::string refusal_;  // why this program can never be saved, or ""
  const uint32_t rank_, ranks_;

  std::atomic<bool> ready_{false};
  std::string process_refusal_;        // agent only: of the current attempt
  bool refused_when_stopped_ = false;  // agent only: at the last stop
  bool holding_ = false;               // agent only
  int64_t stop_asked_ = 0;             // agent only: us, monotonic
  bool stop_traced_ = false;
  // Agent only: when call_left() last looked in this attempt, how often, and how often in a row it found one;
  // attempts in a row in which it did.
  int64_t looked_ = 0;
  int looks_ = 0, found_ = 0, attempts_above_call_ = 0;

  std::mutex mutex_;              // guards everything below
  std::condition_variable wake_;  // the main thread waits on it in serve()
  bool stop_ = false;             // the agent wants the main thread in serve()
  bool here_ = false;             // the main thread is in serve()
  bool serving_ = false;          // ... and has finished Saving::look
  bool gone_ = false;             // the program's main thread has ended; its kernel thread is in stay()
  bool others_stopped_ = false;   // all other threads of the program have stopped
  bool draining_early_ = false;   // messages are drained before all threads have stopped
  Status stopped_refusal_;        // from Saving::look
  Drain drain_ = Drain::kNone;
  Status drain_failure_;  // why this drain has ended too early
  std::vector<coord::PeerCount> expected_;
  bool quiet_ = false;     // libraries quiesced: the program has nothing pending in one
  std::string directory_;  // where to write; "": no write requested
  bool written_ = false;
  Status write_status_;
  coord::ImageSummary summary_;
  std::optional<int> end_status_;  // exit status with which the process must end
};

}  // namespace cropdl::session
