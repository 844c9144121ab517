#include "restart/threads/pending_signals.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/caught.h"
#include "base/file.h"
#include "base/format.h"
#include "base/hex.h"
#include "base/procfs.h"
#include "interpose/seam/state.h"
#include "interpose/upper/raw.h"

namespace cropdl::program_threads {
namespace {

constexpr size_t kInfoSize = 128;  // size of the kernel's siginfo_t (include/uapi/asm-generic/siginfo.h)

struct Taken {
  bool process;
  siginfo_t info;
  bool operator==(const Taken& other) const {
    return process == other.process && memcmp(&info, &other.info, kInfoSize) == 0;
  }
};

bool queue(const Taken& t) {
  const pid_t pid = getpid();
  const auto info = reinterpret_cast<long>(&t.info);
  // For signals to itself, a process may set any siginfo, si_code and sender included (kernel/signal.c,
  // do_rt_sigqueueinfo).
  const long result =
      t.process ? upper::raw(SYS_rt_sigqueueinfo, pid, t.info.si_signo, info)
                : upper::raw(SYS_rt_tgsigqueueinfo, pid, syscall(SYS_gettid), t.info.si_signo, info);
  if (result < 0) errno = static_cast<int>(-result);
  return result == 0;
}

// If this user's queue is full (RLIMIT_SIGPENDING), there may soon be room again. `tries`: how many times to
// wait 1 ms.
void queue_surely(const Taken& t, int* tries) {
  constexpr timespec kPause{0, 1'000'000};
  while (!queue(t) && errno == EAGAIN && *tries > 0) --*tries, nanosleep(&kPause, nullptr);
}

// The kernel delivers the thread's signals before the process's, the lowest number first, and signals of one
// number in queue order.
std::vector<Taken> take(uint64_t set) {
  std::vector<Taken> all;
  const timespec now{};
  for (;;) {
    const uint64_t own = pending_for_thread();
    siginfo_t info{};
    const long sig = upper::raw(SYS_rt_sigtimedwait, reinterpret_cast<long>(&set),
                                reinterpret_cast<long>(&info), reinterpret_cast<long>(&now), 8);
    if (sig <= 0) return all;
    all.push_back({(own >> (sig - 1) & 1) == 0, info});
  }
}

// Signals that are taken must not be lost for lack of memory, and each needs some: of the worst allocator, a
// page for each of its two records. The program is stopped, and does not use up what is free now.
Status have_memory_for_signals() {
  constexpr size_t kLeast = 4 << 20, kEach = 8192;
  const std::string queued = status_field(kernel_text("/proc/thread-self/status"), "SigQ");  // the user's
  const size_t room = kLeast + kEach * strtoull(queued.c_str(), nullptr, 10);
  void* p = mmap(nullptr, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) return no_memory_left();
  munmap(p, room);
  return {};
}

// Signals from kill, tgkill, sigqueue and the like name their sender (man 2 sigaction).
bool has_sender(const siginfo_t& info) {
  return info.si_code == SI_USER || info.si_code == SI_TKILL || info.si_code == SI_QUEUE ||
         info.si_code == SI_MESGQ;
}

bool parse(const std::string& text, siginfo_t* info) {
  const auto bytes = bytes_of_hex(text);
  if (!bytes || bytes->size() != kInfoSize) return false;
  memcpy(info, bytes->data(), kInfoSize);
  return true;
}

}  // namespace

uint64_t pending_for_thread(int32_t tid) {
  const std::string thread = tid == 0 ? "thread-self" : formatted("self/task/{}", tid);
  return status_bits(kernel_text(formatted("/proc/{}/status", thread)), "SigPnd");
}

Result<std::vector<PendingSignal>> pending_signals(uint64_t blocked) {
  if (Status room = have_memory_for_signals(); !room) return room.error();
  const uint64_t set = ~seam::kReservedSignals;
  // A signal's siginfo can only be read by taking the signal, so all are queued again at once. A signal that
  // arrives in between is then ahead of them, out of order; so the loop takes and queues all again.
  std::vector<Taken> known = take(set);
  constexpr int kRounds = 100;  // with an endless sender the order is not kept
  int rounds = 0, tries = 2000;
  for (bool again = !known.empty(); again;) {
    for (const Taken& t : known) queue_surely(t, &tries);
    std::vector<Taken> now = take(set);
    again = !(now == known) && ++rounds < kRounds && tries > 0;
    for (const Taken& t : known)  // new signals go last
      for (size_t i = 0; i < now.size(); ++i)
        if (now[i] == t) {
          now.erase(now.begin() + static_cast<long>(i));
          break;
        }
    for (const Taken& n : now) {  // a standard signal is pending at most once
      const auto same = [&](const Taken& k) {
        return k.process == n.process && k.info.si_signo == n.info.si_signo;
      };
      constexpr int kFirstRealTime = 32;
      if (n.info.si_signo >= kFirstRealTime || std::none_of(known.begin(), known.end(), same))
        known.push_back(n);
    }
  }
  for (const Taken& t : known) queue_surely(t, &tries);
  const auto* state = seam::state();
  std::vector<PendingSignal> result;
  for (Taken t : known) {
    // sigqueue()'s caller writes si_pid itself: the program writes its virtual pid.
    const bool own = t.info.si_pid == state->kernel_pid ||
                     (t.info.si_code == SI_QUEUE && t.info.si_pid == state->virtual_pid);
    const bool by_itself = has_sender(t.info) && own;
    const bool is_blocked = (blocked >> (t.info.si_signo - 1) & 1) != 0;
    if (!is_blocked && has_sender(t.info) && !by_itself) continue;
    if (by_itself) t.info.si_pid = state->virtual_pid;
    result.push_back({t.process, hex_digits(&t.info, kInfoSize)});
  }
  return result;
}

Status queue_again(const std::vector<PendingSignal>& signals) {
  for (const PendingSignal& s : signals) {
    Taken t{s.process, {}};
    if (!parse(s.info, &t.info) || t.info.si_signo < 1 || t.info.si_signo > 64)
      return Error{"a pending signal of the program is not readable in the image"};
    if (has_sender(t.info) && t.info.si_code != SI_QUEUE && t.info.si_pid == seam::state()->virtual_pid)
      t.info.si_pid = getpid();
    if (!queue(t)) return Error{"a pending signal of the program cannot be queued again (see `ulimit -i`)"};
  }
  return {};
}

void to_json(nlohmann::json& j, const PendingSignal& s) { j = {{"process", s.process}, {"info", s.info}}; }

void from_json(const nlohmann::json& j, PendingSignal& s) {
  j.at("process").get_to(s.process);
  j.at("info").get_to(s.info);
}

}  // namespace cropdl::program_threads
