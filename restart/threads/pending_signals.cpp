#include "restart/threads/pending_signals.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>

#include "base/file.h"
#include "base/procfs.h"
#include "base/words.h"
#include "interpose/seam/state.h"
#include "interpose/upper/raw.h"
#include "restart/process/process_ids.h"

namespace cropdl::program_threads {
namespace {

constexpr size_t kInfoSize = 128;  // size of the kernel's siginfo_t (include/uapi/asm-generic/siginfo.h)

struct Taken {
  bool process;
  siginfo_t info;
  const char* bytes() const { return reinterpret_cast<const char*>(&info); }
  bool operator==(const Taken& other) const {
    return process == other.process && memcmp(bytes(), other.bytes(), kInfoSize) == 0;
  }
};

bool queue(const Taken& t) {
  const pid_t pid = getpid();
  const auto info = reinterpret_cast<long>(&t.info);
  // To itself, a process may send any siginfo, also si_code and sender (kernel/signal.c, do_rt_sigqueueinfo).
  const long result =
      t.process ? upper::raw(SYS_rt_sigqueueinfo, pid, t.info.si_signo, info)
                : upper::raw(SYS_rt_tgsigqueueinfo, pid, syscall(SYS_gettid), t.info.si_signo, info);
  if (result < 0) errno = static_cast<int>(-result);
  return result == 0;
}

// If this user's queue is full (RLIMIT_SIGPENDING), there may soon be room: waits 1 ms, up to `tries` times.
void queue_surely(const Taken& t, int* tries) {
  constexpr timespec kPause{0, 1'000'000};
  while (!queue(t) && errno == EAGAIN && *tries > 0) --*tries, nanosleep(&kPause, nullptr);
}

constexpr char kOwnStatus[] = "/proc/thread-self/status";

// The mask of signals pending for this thread, from its status. Allocates nothing: `text` has room. 0:
// unknown.
uint64_t own_pending(const Descriptor& status, std::string& text) {
  const ssize_t n = status ? pread(status.fd(), text.data(), text.size() - 1, 0) : 0;
  if (n <= 0) return 0;
  text[static_cast<size_t>(n)] = '\0';
  constexpr std::string_view kField = "\nSigPnd:";
  const size_t at = text.find(kField);
  return at == std::string::npos ? 0 : strtoull(text.c_str() + at + kField.size(), nullptr, 16);
}

// Signals taken, thus not pending. If something is thrown, they are queued again: the program needs them.
struct Signals {
  explicit Signals(int* tries_left) : tries(tries_left) {}
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;
  ~Signals() { queue_all(); }

  void queue_all() {
    if (std::exchange(taken, false))
      for (const Taken& t : all) queue_surely(t, tries);
  }

  // Allocates before it takes the first: queued one by one, those of one number would change places. The
  // kernel delivers the thread's before the process's, the lowest number first, each number in queue order.
  void take(uint64_t set) {
    std::string text = kernel_text(kOwnStatus);
    constexpr size_t kMore = 64;  // those without a place in the queue, and some that come meanwhile
    all.reserve(strtoull(status_field(text, "SigQ").c_str(), nullptr, 10) + kMore);  // of this user
    text.resize(text.size() + 4096);                                                 // as numbers in it grow
    const Descriptor status = open_high(kOwnStatus, O_RDONLY);
    taken = true;
    for (;;) {
      if (all.size() == all.capacity()) all.reserve(2 * all.size());
      const uint64_t own = own_pending(status, text);
      siginfo_t info{};
      const long sig = take_signal(set, &info);
      if (sig <= 0) return;
      all.push_back({(own >> (sig - 1) & 1) == 0, info});
    }
  }

  std::vector<Taken> all;
  bool taken = false;
  int* const tries;  // as for queue_surely()
};

// Adds to `known` what is new in `now`. Leaves nothing in `now`.
void merge(Signals& known, Signals& now) {
  known.all.reserve(known.all.size() + now.all.size());  // the last that may throw
  known.taken = std::exchange(now.taken, false);
  for (const Taken& t : known.all) {  // new signals go last
    const auto same = std::find(now.all.begin(), now.all.end(), t);
    if (same != now.all.end()) now.all.erase(same);
  }
  for (const Taken& n : now.all) {  // a standard signal is pending at most once
    const auto same = [&](const Taken& k) {
      return k.process == n.process && k.info.si_signo == n.info.si_signo;
    };
    constexpr int kFirstRealTime = 32;
    if (n.info.si_signo >= kFirstRealTime || std::none_of(known.all.begin(), known.all.end(), same))
      known.all.push_back(n);
  }
  now.all.clear();
}

// Signals from kill, tgkill, sigqueue and the like name their sender (man 2 sigaction).
bool has_sender(const siginfo_t& info) {
  return info.si_code == SI_USER || info.si_code == SI_TKILL || info.si_code == SI_QUEUE ||
         info.si_code == SI_MESGQ;
}

// Whether another rank sent the signal. `ranks`: filled when first needed.
bool sent_by_rank(const siginfo_t& info, std::optional<std::vector<pid_t>>* ranks) {
  if (info.si_code == SI_QUEUE && seam::control()->other_ranks.kernel_pid(info.si_pid) != 0) return true;
  if (!*ranks) *ranks = process::other_ranks();
  return std::find((*ranks)->begin(), (*ranks)->end(), info.si_pid) != (*ranks)->end();
}

// Exchanges the sender's id for the other one that it has, if it is another rank of a restarted job.
void name_rank(siginfo_t* info, int32_t (seam::RankIds::*other_id)(int32_t) const) {
  const int32_t id = (seam::control()->other_ranks.*other_id)(info->si_pid);
  if (id != 0) info->si_pid = id;
}

}  // namespace

long take_signal(uint64_t set, siginfo_t* info) noexcept {
  const timespec now{};
  return upper::raw(SYS_rt_sigtimedwait, reinterpret_cast<long>(&set), reinterpret_cast<long>(info),
                    reinterpret_cast<long>(&now), 8);
}

std::vector<PendingSignal> pending_signals(uint64_t blocked) {
  const uint64_t set = ~seam::kReservedSignals;
  // A signal's siginfo can only be read by taking the signal, so all are queued again at once. A signal that
  // arrives in between is then ahead of them, out of order; so the loop takes and queues all again.
  constexpr int kRounds = 100;  // with an endless sender the order is not kept
  int rounds = 0, tries = 10'000;
  Signals known(&tries), now(&tries);
  known.take(set);
  for (bool again = !known.all.empty(); again;) {
    known.queue_all();
    now.take(set);
    again = now.all != known.all && ++rounds < kRounds && tries > 0;
    merge(known, now);
  }
  known.queue_all();
  const auto* state = seam::state();
  std::vector<PendingSignal> result;
  std::optional<std::vector<pid_t>> ranks;
  for (Taken t : known.all) {
    // sigqueue()'s caller writes si_pid itself: the program writes its virtual pid.
    const bool own = t.info.si_pid == state->kernel_pid ||
                     (t.info.si_code == SI_QUEUE && t.info.si_pid == state->virtual_pid);
    const bool by_itself = has_sender(t.info) && own;
    const bool is_blocked = (blocked >> (t.info.si_signo - 1) & 1) != 0;
    // What arrives while the program is stopped comes after the cut, except from a rank that then still ran.
    if (!is_blocked && has_sender(t.info) && !by_itself && !sent_by_rank(t.info, &ranks)) continue;
    if (by_itself)
      t.info.si_pid = state->virtual_pid;
    else if (has_sender(t.info) && t.info.si_code != SI_QUEUE)
      name_rank(&t.info, &seam::RankIds::virtual_pid);
    result.push_back({t.process, hex_digits(&t.info, kInfoSize)});
  }
  return result;
}

static bool is_ignored(int sig) {
  const auto* state = seam::state();
  const uint64_t handler = seam::kernel_action(sig, state->actions[sig], state->core).handler;
  if (handler != reinterpret_cast<uint64_t>(SIG_DFL)) return handler == reinterpret_cast<uint64_t>(SIG_IGN);
  return sig == SIGCHLD || sig == SIGCONT || sig == SIGURG || sig == SIGWINCH;
}

Status queue_again(const std::vector<PendingSignal>& signals, bool only_ignored) {
  for (const PendingSignal& s : signals) {
    Taken t{s.process, {}};
    const auto bytes = bytes_of_hex(s.info);
    if (bytes && bytes->size() == kInfoSize) memcpy(&t.info, bytes->data(), kInfoSize);
    if (t.info.si_signo < 1 || t.info.si_signo > 64)
      return Error{"a pending signal of the program is not readable in the image"};
    if (only_ignored && !is_ignored(t.info.si_signo)) continue;
    if (has_sender(t.info) && t.info.si_code != SI_QUEUE) {
      if (t.info.si_pid == seam::state()->virtual_pid)
        t.info.si_pid = getpid();
      else
        name_rank(&t.info, &seam::RankIds::kernel_pid);
    }
    if (!queue(t)) return Error{"a pending signal of the program cannot be queued again (see `ulimit -i`)"};
  }
  return {};
}

}  // namespace cropdl::program_threads
