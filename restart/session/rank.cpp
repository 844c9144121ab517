#include "restart/session/rank.h"

#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <thread>
#include <utility>

#include "base/file.h"
#include "base/format.h"
#include "base/say.h"
#include "base/time.h"
#include "interpose/counting/thread_order.h"
#include "interpose/seam/control_page.h"
#include "interpose/upper/raw.h"
#include "restart/session/process_state.h"
#include "restart/threads/program_threads.h"

namespace cropdl::session {
namespace {

// A stopped rank looks after its libraries' messages this often: other ranks' rendezvous may need it.
constexpr std::chrono::microseconds kNap{200};
constexpr std::chrono::seconds kLongestEnd{10};  // of announce_end()

void set_attention(uint32_t bits) {
  __atomic_fetch_or(&seam::writable_control->attention, bits, __ATOMIC_SEQ_CST);
}
void clear_attention() { __atomic_store_n(&seam::writable_control->attention, 0u, __ATOMIC_SEQ_CST); }

// In the kernel, whatever the core or the program has made of it.
void set_default(int signal) {
  const seam::SignalAction standard{};
  upper::raw(SYS_rt_sigaction, signal, reinterpret_cast<long>(&standard), 0, 8);
}

}  // namespace

// While ranks agree on a cut, status() looks; behind begin_write() the main thread does.
int64_t Rank::observe(int64_t now) {
  constexpr int64_t kPause = 100'000;
  return holding_ || !has_tracker() ? now + kPause : tracker_.look(now);
}

// The main thread has it before the program runs, and while it writes an image, also one that is not wanted
// any more.
bool Rank::has_tracker() {
  if (!ready_) return false;
  const std::lock_guard lock(mutex_);
  return directory_.empty() || written_;
}

void Rank::hold() {
  if (!ready_) return;  // and status() refuses this attempt, even if the program begins to run in its course
  process_refusal_ = refusal_.empty() ? process_refusal() : refusal_;
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
  tracker_.look(monotonic_us());  // behind the counts: what they say is noted, or about to be
  s.boundary = tracker_.next_boundary();
  if (s.refusal.empty()) s.refusal = process_refusal_;
  if (s.refusal.empty()) s.refusal = place_refusal();
  return s;
}

// With a launcher that the MPI cannot talk to, every rank is an MPI job of its own.
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
    const std::lock_guard lock(mutex_);  // the main thread may be about to end a former stop
    first = !stop_;
    if (first) program_threads::begin_thread_stop();
    stop_ = true;
    main_parked = here_ || gone_;  // and stays: only now can it make no thread that the look below misses
  }
  if (first) {
    stop_asked_ = monotonic_us();
    stop_traced_ = false;
  }
  set_attention(seam::kAttentionStop);
  if (first && libraries_.drains_early()) counting::order_all_threads();
  const bool others = program_threads::stop_threads() && main_parked;
  if (!others)
    if (std::string why = libraries_.stop_trouble(stop_asked_); !why.empty()) {
      *failure = Error{why};
      return false;
    }
  {
    const std::lock_guard lock(mutex_);
    if (others && !others_stopped_) {
      others_stopped_ = true;
      wake_.notify_one();
    }
    if (gone_) wake_.notify_one();
    if (others && (here_ || gone_)) trace_stop();
    if (!(others && here_))
      if (std::string why = drain_early(); !why.empty()) *failure = Error{why};
    if (here_ || gone_) return serving_;
  }
  program_threads::ask_to_stop(seam::state()->threads[0]);
  return false;
}

void Rank::trace_stop() {
  if (!saving_.trace || std::exchange(stop_traced_, true)) return;
  say(formatted("cropdl: rank {}: all threads stopped after {} us", rank_, monotonic_us() - stop_asked_));
}

// Under mutex_. What a thread does after a send that was seen behind order_all_threads() is to park: so
// nothing of the program receives, or makes or frees what messages are sent on, until the stop is over.
// Returns why it does not succeed, or "".
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
  return stopped_refusal_;
}

std::vector<coord::PeerCount> Rank::sent() {
  return ready_ ? libraries_.sent() : std::vector<coord::PeerCount>();
}

void Rank::begin_drain(const std::vector<coord::PeerCount>& expected) {
  const std::lock_guard lock(mutex_);
  expected_ = expected;
  drain_ = Drain::kAsked;
  wake_.notify_one();
}

bool Rank::drained(Status* failure) {
  {
    const std::lock_guard lock(mutex_);  // before it runs, what is in its way is a former attempt's
    if (drain_ != Drain::kRunning && drain_ != Drain::kDone) return false;
  }
  if (std::string why = libraries_.drain_trouble(); !why.empty()) *failure = Error{why};
  const std::lock_guard lock(mutex_);
  return drain_ == Drain::kDone;
}

void Rank::begin_write(const std::string& directory) {
  tracker_.look(monotonic_us());  // the last one: from here on it is the main thread's
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

// What is resident, the lower half's share included, and what the libraries hold in devices.
uint64_t Rank::memory_bytes() {
  unsigned long long size = 0, resident = 0;  // pages: proc(5)
  if (sscanf(kernel_text("/proc/self/statm").c_str(), "%llu %llu", &size, &resident) != 2) resident = 0;
  return resident * static_cast<uint64_t>(sysconf(_SC_PAGESIZE)) + libraries_.memory_in_use();
}

// One that came when no thread could take it any more waits for the process. Who reads what waits there for
// an image (pending_signals) may have it just now: the next look finds it.
bool Rank::take_sigterm() {
  constexpr uint64_t kOnly = 1ull << (SIGTERM - 1);
  {
    const std::lock_guard lock(mutex_);
    if (!serving_) return false;
  }
  const auto* state = seam::state();
  if (state->core.last_version == 0 || state->actions[SIGTERM].handler != 0) return false;
  if ((program_threads::blocked_everywhere() & kOnly) != 0) return false;
  siginfo_t info{};
  const timespec now{};
  if (upper::raw(SYS_rt_sigtimedwait, reinterpret_cast<long>(&kOnly), reinterpret_cast<long>(&info),
                 reinterpret_cast<long>(&now), 8) != SIGTERM)
    return false;
  const bool sent = info.si_code == SI_USER || info.si_code == SI_QUEUE;
  if (sent && info.si_pid != getpid()) return true;
  upper::raw(SYS_rt_sigqueueinfo, getpid(), SIGTERM, reinterpret_cast<long>(&info));
  return false;
}

void Rank::let_sigterm_kill() {
  if (seam::state()->actions[SIGTERM].handler == 0) set_default(SIGTERM);
}

void Rank::resume() {
  if (!holding_) return;
  bool early;
  {
    const std::lock_guard lock(mutex_);
    early = std::exchange(draining_early_, false);
  }
  if (early) libraries_.end_early_drain();  // before any thread goes on
  counting::release();
  holding_ = false;
  clear_attention();
  {
    const std::lock_guard lock(mutex_);
    stop_ = false;
    others_stopped_ = false;
    serving_ = false;
    // While the main thread serves, it may be looking at the others, writing their memory, or be about to
    // post what they have begun before: it lets them go when it is done.
    if (here_)
      wake_.notify_one();
    else
      program_threads::release_threads();
  }
}

// By a system call alone: what the program has in its buffers is in the image, and a restart writes it.
void Rank::leave(int status) {
  const uint64_t only = 1ull << (SIGTERM - 1);  // from now on nothing is lost, and it would change the status
  upper::raw(SYS_rt_sigprocmask, SIG_BLOCK, reinterpret_cast<long>(&only), 0, 8);
  {
    const std::lock_guard lock(mutex_);
    end_status_ = status;  // the main thread does it: it has the connection to the launcher
    wake_.notify_one();
  }
  std::this_thread::sleep_for(kLongestEnd);
  _exit(status);
}

// By the signal's default, whatever the core or the program has made of it meanwhile.
void Rank::die(int signal) {
  const uint64_t only = 1ull << (signal - 1);
  set_default(signal);
  upper::raw(SYS_rt_sigprocmask, SIG_UNBLOCK, reinterpret_cast<long>(&only), 0, 8);
  upper::raw(SYS_tgkill, getpid(), gettid(), signal);
  _exit(128 + signal);
}

void Rank::stay() {
  std::unique_lock lock(mutex_);
  gone_ = true;
  for (;;) {
    wake_.wait(lock, [this] { return stop_; });
    lock.unlock();
    serve();
    lock.lock();
  }
}

// The order is the agent's; this only does what is asked, and keeps the libraries moving between. `serving_`
// is true exactly while nothing of the program can run: resume() ends it at once, and a new stop that comes
// before this thread has noticed finds it here again only after the receives of the former cut have been
// posted.
void Rank::serve() {
  program_threads::forget_suspend_signals();
  std::unique_lock lock(mutex_);
  here_ = true;
  while (stop_) {
    // Nothing is looked at, and the MPI not called, before all threads have stopped: it may be one of them
    // that is inside.
    wake_.wait(lock, [this] { return others_stopped_ || !stop_; });
    if (!stop_) break;
    draining_early_ = false;  // and will not be begun again in this stop
    lock.unlock();
    libraries_.end_early_drain();
    std::string refusal = saving_.look();
    lock.lock();
    stopped_refusal_ = std::move(refusal);
    if (!stop_) break;  // the attempt was given up meanwhile
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
      if (!quiet_) {  // also when all is here: what another rank waits for may lie in a queue on this side
        lock.unlock();
        libraries_.progress();
        lock.lock();
      }
      if (drain_ == Drain::kAsked || !directory_.empty() || !serving_) continue;
      wake_.wait_for(lock, kNap);
    }
    if (quiet_) {
      quiet_ = false;
      lock.unlock();
      libraries_.resume();
      lock.lock();
    }
  }
  here_ = false;
  program_threads::release_threads();
}

void Rank::drain_some(std::unique_lock<std::mutex>& lock) {
  const bool begin = drain_ == Drain::kAsked;
  const std::vector<coord::PeerCount> expected = expected_;
  if (begin) {
    drain_ = Drain::kBeginning;
    lock.unlock();
    libraries_.begin_drain(expected);
    lock.lock();
    if (drain_ != Drain::kBeginning) return;  // asked again meanwhile
  }
  lock.unlock();
  const bool done = libraries_.drain_step();
  lock.lock();
  if (drain_ == Drain::kBeginning) drain_ = Drain::kRunning;     // what a step cures is no trouble
  if (done && drain_ == Drain::kRunning) drain_ = Drain::kDone;  // asked again meanwhile: once more
}

void Rank::write(std::unique_lock<std::mutex>& lock) {
  const std::string directory = directory_;
  lock.unlock();
  quiet_ = true;
  const Status pending = libraries_.quiesce();
  const auto saved =
      pending ? saving_.write(directory, tracker_) : Result<coord::ImageSummary>(pending.error());
  if (!saved) {
    // A file size limit raised SIGXFSZ, blocked here: it was about our file, not about one of the program's.
    sigset_t limit;
    sigemptyset(&limit);
    sigaddset(&limit, SIGXFSZ);
    const timespec now{};
    sigtimedwait(&limit, nullptr, &now);
  }
  lock.lock();
  directory_.clear();
  if (saved)
    summary_ = *saved;
  else
    write_status_ = saved.error();
  written_ = true;
}

}  // namespace cropdl::session
