#include "restart/session/rank.h"

#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <utility>

#include "base/caught.h"
#include "base/file.h"
#include "base/format.h"
#include "base/say.h"
#include "base/time.h"
#include "interpose/counting/agreement.h"
#include "interpose/seam/control_page.h"
#include "restart/memory/save_memory.h"
#include "restart/process/clocks.h"
#include "restart/session/process_state.h"
#include "restart/threads/program_threads.h"

namespace cropdl::session {
namespace {

// A stopped rank progresses its libraries' messages this often: other ranks' rendezvous may need it.
constexpr std::chrono::microseconds kNap{200};

void set_attention(uint32_t bits) {
  __atomic_fetch_or(&seam::writable_control->attention, bits, __ATOMIC_SEQ_CST);
}

template <class Work>
void unlocked(std::unique_lock<std::mutex>& lock, Work work) {
  lock.unlock();
  work();
  lock.lock();
}

}  // namespace

// During an agreement status() looks; after begin_write() the main thread does.
int64_t Rank::observe(int64_t now) {
  constexpr int64_t kPause = 100'000;
  return holding_ || !has_tracker() ? now + kPause : tracker_.look(now);
}

// The main thread uses the tracker before the program runs, and while it writes even a discarded image.
bool Rank::has_tracker() {
  if (!ready_) return false;
  const std::lock_guard lock(mutex_);
  return directory_.empty() || written_;
}

void Rank::hold() {
  // status() refuses this attempt, even if the program starts during it.
  if (!ready_) return;
  process_refusal_ = refusal_.empty() ? process_refusal() : refusal_;
  // Milliseconds, so only if it was refused before: it need not stop again for that.
  if (process_refusal_.empty() && refused_when_stopped_) process_refusal_ = host_memory::memory_refusal();
  // Now rather than in status(), while ranks are held.
  if (has_tracker()) tracker_.look(monotonic_us());
  holding_ = true;
  set_attention(seam::kAttentionHold);
  libraries_.hold();
}

void Rank::set_targets(const std::vector<coord::CollectiveCount>& targets) {
  if (holding_) counting::set_targets(targets);
}

coord::RankStatus Rank::status() {
  coord::RankStatus s;
  if (!holding_) {
    s.starting = true;
    s.refusal = "the program is only just being started or restarted; ask again";
    return s;
  }
  libraries_.fill_status(s);
  // After the counts: the collectives that they include are recorded, or are about to be.
  tracker_.look(monotonic_us());
  s.boundary = tracker_.next_boundary();
  if (s.refusal.empty()) s.refusal = process_refusal_;
  if (s.refusal.empty()) s.refusal = place_refusal();
  return s;
}

int64_t Rank::waited() { return holding_ ? counting::waited() : 0; }

// If the MPI cannot talk to the launcher, each rank is an MPI job of its own.
std::string Rank::place_refusal() const {
  const auto place = libraries_.place();
  if (ranks_ == 0 || !place) return "";
  const auto [rank, size] = *place;
  if (rank == static_cast<int>(rank_) && size == static_cast<int>(ranks_)) return "";
  return formatted(
      "the launcher started rank {} of {}, but to its MPI it is rank {} of {}; start it with a launcher of "
      "that MPI (srun: --mpi=...)",
      rank_, ranks_, rank, size);
}

bool Rank::try_stop(Status* failure) {
  if (!holding_) return false;
  bool first, main_parked;
  {
    const std::lock_guard lock(mutex_);  // the main thread may be about to end the previous stop
    first = !std::exchange(stop_, true);
    if (first) program_threads::begin_thread_stop();
    // It stays there now, so it can create no thread that stop_threads() below would miss.
    main_parked = here_ || gone_;
  }
  if (first) {
    stop_asked_ = monotonic_us();
    stop_traced_ = false;
    looked_ = looks_ = found_ = 0;
  }
  set_attention(seam::kAttentionStop);
  if (first && libraries_.drains_early()) counting::order_all_threads();
  const bool others = program_threads::stop_threads() && main_parked;
  if (!others) {
    std::string why = libraries_.stop_trouble(stop_asked_);
    if (why.empty()) why = call_left();
    if (!why.empty()) {
      *failure = Error{why};
      return false;
    }
  }
  {
    const std::lock_guard lock(mutex_);
    if (others && !others_stopped_) {
      others_stopped_ = true;
      attempts_above_call_ = 0;
      wake_.notify_one();
    }
    if (gone_) wake_.notify_one();
    if (others && (here_ || gone_) && saving_.trace && !std::exchange(stop_traced_, true))
      say(formatted("cropdl: rank {}: all threads stopped after {} us", rank_, monotonic_us() - stop_asked_));
    if (!(others && here_))
      if (std::string why = drain_early(); !why.empty()) *failure = Error{why};
    if (here_ || gone_) return serving_;
  }
  program_threads::ask_to_stop(seam::state()->threads[0]);
  return false;
}

bool Rank::examining() {
  const std::lock_guard lock(mutex_);
  return others_stopped_ && here_ && !serving_;
}

// Why no stop can be expected any more, or "": no signal reaches the threads, or in two attempts a thread was
// found above a call of the LH, each time. A handler that returns soon is rarely found so often in a row.
std::string Rank::call_left() {
  constexpr int64_t kFirst = 3'000'000, kApart = 100'000;  // us
  constexpr int kFound = 10, kMostLooks = 20;              // in an attempt: each look is a signal
  const int64_t now = monotonic_us();
  if (now - stop_asked_ < kFirst || now - looked_ < kApart || looks_ == kMostLooks) return "";
  if (program_threads::signal_queue_is_full())
    return "its threads cannot be stopped: the queue of signals is full; raise its limit (ulimit -i)";
  looked_ = now;
  ++looks_;
  found_ = __atomic_exchange_n(&seam::state()->found_above_call, 0u, __ATOMIC_SEQ_CST) != 0 ? found_ + 1 : 0;
  if (found_ < kFound) {
    program_threads::ask_again();
    return "";
  }
  looks_ = kMostLooks;
  if (++attempts_above_call_ < 2) return "";
  return "a signal handler or callback of the program has left a call of MPI or CUDA by a jump (siglongjmp), "
         "or has not returned to it in two attempts; let it return";
}

// Under mutex_. A thread seen inside a send after order_all_threads() parks next. So until the stop is over,
// nothing of the program receives, or creates or frees what messages are sent on. Returns trouble, or "".
std::string Rank::drain_early() {
  if (draining_early_) return libraries_.early_drain_trouble();
  if (others_stopped_ || !libraries_.drains_early() || !program_threads::threads_only_send(here_)) return "";
  draining_early_ = true;
  libraries_.begin_early_drain();
  return "";
}

std::string Rank::refusal_when_stopped() {
  if (std::string line = libraries_.refusal(); !line.empty()) return line;
  if (std::string line = process_refusal(); !line.empty()) return line;
  const std::lock_guard lock(mutex_);
  refused_when_stopped_ = !stopped_refusal_;
  return stopped_refusal_ ? "" : stopped_refusal_.error().message;
}

std::vector<coord::PeerCount> Rank::sent() {
  return ready_ ? libraries_.sent() : std::vector<coord::PeerCount>();
}

void Rank::begin_drain(const std::vector<coord::PeerCount>& expected) {
  const std::lock_guard lock(mutex_);
  expected_ = expected;
  drain_failure_ = Status();
  drain_ = Drain::kAsked;
  wake_.notify_one();
}

bool Rank::drained(Status* failure) {
  {
    const std::lock_guard lock(mutex_);  // until this drain runs, drain_trouble() is an earlier attempt's
    if (!drain_failure_) {
      *failure = drain_failure_;
      return false;
    }
    if (drain_ != Drain::kRunning && drain_ != Drain::kDone) return false;
  }
  if (std::string why = libraries_.drain_trouble(); !why.empty()) *failure = Error{why};
  const std::lock_guard lock(mutex_);
  return drain_ == Drain::kDone;
}

void Rank::begin_write(const std::string& directory) {
  tracker_.look(monotonic_us());  // the last look: from now on the tracker is the main thread's
  const std::lock_guard lock(mutex_);
  directory_ = directory;
  written_ = false;
  write_status_ = Status();
  wake_.notify_one();
}

bool Rank::written(Status* failure, coord::ImageSummary* summary) {
  const std::lock_guard lock(mutex_);
  if (!written_) return false;
  *failure = write_status_;
  *summary = summary_;
  return true;
}

// Resident memory, including the lower half's, plus the libraries' memory on devices.
uint64_t Rank::memory_bytes() {
  unsigned long long size = 0, resident = 0;  // pages: proc(5)
  if (sscanf(kernel_text("/proc/self/statm").c_str(), "%llu %llu", &size, &resident) != 2) resident = 0;
  return resident * static_cast<uint64_t>(sysconf(_SC_PAGESIZE)) + libraries_.memory_in_use();
}

void Rank::resume() {
  if (!holding_) return;
  bool early;
  {
    const std::lock_guard lock(mutex_);
    early = std::exchange(draining_early_, false);
  }
  if (early) libraries_.end_early_drain();  // before any thread resumes
  counting::release();
  holding_ = false;
  __atomic_store_n(&seam::writable_control->attention, 0u, __ATOMIC_SEQ_CST);
  const std::lock_guard lock(mutex_);
  stop_ = others_stopped_ = serving_ = false;
  // While serving, the main thread may be examining the other threads, writing their memory, or about to post
  // their pending receives. It releases them when done.
  if (here_)
    wake_.notify_one();
  else
    program_threads::release_threads();
}

void Rank::stay() {
  std::unique_lock lock(mutex_);
  gone_ = true;
  for (;;) {
    wake_.wait(lock, [this] { return stop_; });
    unlocked(lock, [this] { serve(); });
  }
}

// Executes the agent's orders and progresses the libraries in between. `serving_` is true exactly while
// nothing of the program can run: resume() clears it immediately, and a new stop that this thread has not
// noticed finds it here again only after the previous cut's receives have been posted.
// Nothing may be thrown out of it into the program's frames, even when a write has failed for lack of memory.
// What allocates is caught; the rest moves errors, has room on the stack (forget_suspend_signals), or has
// reserved what it needs (the libraries' resume() and progress()).
void Rank::serve() {
  program_threads::forget_suspend_signals();
  std::unique_lock lock(mutex_);
  here_ = true;
  while (stop_) {
    // Do not examine state or call the MPI before all threads have stopped: one of them may be inside.
    wake_.wait(lock, [this] { return others_stopped_ || !stop_; });
    if (!stop_) break;
    const process::StoppedTimers timers;
    draining_early_ = false;  // not started again in this stop
    Status refusal;
    unlocked(lock, [&] {
      libraries_.end_early_drain();
      refusal = caught([this] { return saving_.look(); });
    });
    stopped_refusal_ = std::move(refusal);
    if (!stop_) break;  // the attempt has ended meanwhile
    serving_ = true;
    drain_ = Drain::kNone;
    directory_.clear();
    while (serving_) {
      if (end_status_) {
        libraries_.announce_end();
        _exit(*end_status_);
      }
      if (drain_ == Drain::kAsked || drain_ == Drain::kRunning) drain_some(lock);
      if (serving_ && !directory_.empty()) write(lock);
      if (!serving_) break;
      // Also after this rank's drain: a message that another rank waits for may be in a queue on this side.
      if (!quiet_) unlocked(lock, [this] { libraries_.progress(); });
      if (drain_ == Drain::kAsked || !directory_.empty() || !serving_) continue;
      wake_.wait_for(lock, kNap);
    }
    if (std::exchange(quiet_, false)) unlocked(lock, [this] { libraries_.resume(); });  // allocates nothing
  }
  here_ = false;
  program_threads::release_threads();
}

void Rank::fail_drain(Status why) {
  drain_failure_ = std::move(why);
  drain_ = Drain::kNone;
}

void Rank::drain_some(std::unique_lock<std::mutex>& lock) {
  const bool begin = drain_ == Drain::kAsked;
  if (begin) {
    drain_ = Drain::kBeginning;
    const std::vector<coord::PeerCount> expected = std::exchange(expected_, {});
    Status begun;
    unlocked(lock, [&] { begun = caught([&] { libraries_.begin_drain(expected); }); });
    if (drain_ != Drain::kBeginning) return;  // asked again meanwhile
    if (!begun) return fail_drain(std::move(begun));
  }
  bool done = false;
  Status stepped;
  unlocked(lock, [&] { stepped = caught([&] { done = libraries_.drain_step(); }); });
  if (!stepped) return fail_drain(std::move(stepped));
  if (drain_ == Drain::kBeginning) drain_ = Drain::kRunning;  // trouble that one step resolves does not count
  if (done && drain_ == Drain::kRunning) drain_ = Drain::kDone;  // asked again meanwhile: drain again
}

void Rank::write(std::unique_lock<std::mutex>& lock) {
  quiet_ = true;
  lock.unlock();
  coord::ImageSummary summary;
  Status saved = caught([&]() -> Status {
    if (Status quiet = libraries_.quiesce(); !quiet) return quiet;
    // The agent leaves `directory_` alone until written_.
    return saving_.write(directory_, tracker_).move_to(summary);
  });
  if (!saved) {
    // A file size limit on the image raised SIGXFSZ, blocked here: not the program's signal, so consume it.
    siginfo_t info{};
    program_threads::take_signal(1ull << (SIGXFSZ - 1), &info);
  }
  lock.lock();
  directory_.clear();
  summary_ = std::move(summary);
  write_status_ = std::move(saved);
  written_ = true;
}

}  // namespace cropdl::session
